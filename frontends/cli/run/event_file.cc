// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/event_file.h"

#include <bit>
#include <chrono>
#include <cstring>

#include "core/support/crc32c.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

enum class Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
void put_little(std::string& to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void put_key(std::string& to, unsigned field, Wire wire) { put_varint(to, field << 3 | static_cast<unsigned>(wire)); }

void put_bytes(std::string& to, unsigned field, std::string_view bytes) {
  put_key(to, field, Wire::bytes);
  put_varint(to, bytes.size());
  to += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  Crc32c crc;
  crc.add(std::as_bytes(std::span(bytes.data(), bytes.size())));
  return std::rotr(crc.value(), 15) + 0xa282ead8u;
}

std::string record(const std::string& message) {
  std::string text;
  put_little<std::uint64_t>(text, message.size());
  put_little(text, masked_crc(text));
  text += message;
  put_little(text, masked_crc(message));
  return text;
}

std::string event(double seconds, std::int64_t step) {
  std::string message;
  put_key(message, 1, Wire::fixed64);
  put_little(message, std::bit_cast<std::uint64_t>(seconds));
  put_key(message, 2, Wire::varint);
  put_varint(message, static_cast<std::uint64_t>(step));
  return message;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string version_event(double seconds) {
  std::string message = event(seconds, 0);
  put_bytes(message, 3, "brain.Event:2");
  return record(message);
}

std::string start_event(double seconds, std::int64_t step) {
  constexpr unsigned k_start = 1;  // SessionLog.SessionStatus
  std::string log, message = event(seconds, step);
  put_key(log, 1, Wire::varint);
  put_varint(log, k_start);
  put_bytes(message, 7, log);
  return record(message);
}

std::string scalar_event(double seconds, std::int64_t step, const Scalars& scalars) {
  std::string summary, message = event(seconds, step);
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_key(value, 2, Wire::fixed32);
    put_little(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    put_bytes(summary, 1, value);
  }
  put_bytes(message, 5, summary);
  return record(message);
}

Scalars scalars_of(const Progress& p) {
  Scalars s;
  if (p.validation_loss) {
    s["validation/loss"] = *p.validation_loss;
    for (const auto& [name, value] : p.validation_metrics) s["validation/" + name] = value;
    return s;
  }
  s = {{"train/loss", p.loss},
       {"train/gradient_norm", p.gradient_norm},
       {"train/lr", p.lr},
       {"speed/updates_per_second", p.updates_per_second},
       {"speed/data_wait", p.data_wait}};
  if (p.loss_scale) s["train/loss_scale"] = *p.loss_scale;
  for (const auto& [name, value] : p.metrics) s["train/" + name] = value;
  if (!p.statistics) return s;
  for (const auto& [name, w] : p.statistics->parameters) {
    s["watch/gradient_norm/" + name] = w.gradient_norm;
    s["watch/update_ratio/" + name] = w.update_ratio;
  }
  for (const auto& [name, w] : p.statistics->loops) {
    s["watch/saturated/" + name] = w.saturated;
    s["watch/dead/" + name] = w.dead;
  }
  return s;
}

EventFile::EventFile(const std::string& folder, Vfs& vfs) {
  const double seconds = now();
  const std::string stem = folder + "/events.out.tfevents." + std::to_string(static_cast<std::int64_t>(seconds)) + ".";
  int n = 0;  // a run may be resumed within a second
  while (vfs.exists(stem + std::to_string(n) + ".unroll")) ++n;
  file_ = vfs.create(stem + std::to_string(n) + ".unroll");
  write(version_event(seconds));
}

void EventFile::write(const std::string& text) {
  if (!file_) return;
  try {
    file_->write(std::as_bytes(std::span(text)));
  } catch (const Error&) {
    file_.reset();
  }
}

void EventFile::report(const Progress& p) {
  if (!started_) write(start_event(now(), p.update));
  started_ = true;
  write(scalar_event(now(), p.update, scalars_of(p)));
}

}  // namespace unroll::cli
