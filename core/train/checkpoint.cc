// SPDX-License-Identifier: Apache-2.0
#include "core/train/checkpoint.h"

#include <charconv>

#include "core/support/crc32c.h"
#include "core/support/exact_text.h"
#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_format = "unroll run 1";
constexpr const char* k_digest = "digest";

class Reader {
 public:
  Reader(const TensorFile& file, const std::string& path) : file_(file), path_(path) {}

  const std::string& text(const std::string& key) const {
    const auto at = file_.metadata.find(key);
    if (at == file_.metadata.end()) refuse("has no '" + key + "' in its metadata");
    return at->second;
  }
  template <class T>
  T number(const std::string& key) const {
    const std::string& from = text(key);
    T value{};
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (error != std::errc() || end != from.data() + from.size())
      refuse("has '" + from.substr(0, 40) + "' as '" + key + "'");
    return value;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input_file, path_, what,
                "The file is not a checkpoint of a run; start a new run in another folder");
  }

 private:
  const TensorFile& file_;
  const std::string& path_;
};

class Digest {
 public:
  void add(std::string_view text) {
    const std::uint64_t size = text.size();
    crc_.add(std::as_bytes(std::span(&size, 1)));
    crc_.add(std::as_bytes(std::span(text.data(), text.size())));
  }
  void add(const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) {
      add(name);
      add(tensor.type().text());
      crc_.add(tensor.bytes());
    }
  }
  std::string text() const {
    char hex[16];
    const std::string digits(hex, std::to_chars(hex, hex + sizeof hex, crc_.value(), 16).ptr);
    return "crc32c:" + std::string(8 - digits.size(), '0') + digits;
  }

 private:
  Crc32c crc_;
};

std::string digest_of(const TensorFile& file) {
  Digest digest;
  digest.add(file.tensors);
  for (const auto& [key, value] : file.metadata) {
    if (key == k_digest) continue;
    digest.add(key);
    digest.add(value);
  }
  return digest.text();
}

}  // namespace

std::string digest_of(const Batch& batch) {
  Digest digest;
  digest.add(batch.inputs);
  return digest.text();
}

void put_run_state(TensorFile& file, const RunState& s) {
  auto& m = file.metadata;
  m["trainer.format"] = k_format;
  m["trainer.update"] = exact_text(s.update);
  m["trainer.seed"] = exact_text(s.seed);
  m["trainer.batches_per_epoch"] = exact_text(s.batches_per_epoch);
  m["trainer.accumulate"] = exact_text(s.accumulate);
  m["trainer.metrics_bytes"] = exact_text(s.metrics_bytes);
  m["trainer.best_loss"] = s.best_loss ? exact_text(*s.best_loss) : "none";
  m["trainer.last_loss"] = exact_text(s.last_loss);
  m["trainer.validations_without_better"] = exact_text(s.validations_without_better);
  m["trainer.plateaus"] = exact_text(s.plateau.plateaus);
  m["trainer.plateau_waited"] = exact_text(s.plateau.waited);
  m["trainer.rollbacks"] = exact_text(s.rollbacks);
  for (const auto& [name, value] : s.best_metrics) m["trainer.best." + name] = exact_text(value);
  if (!s.data_digest.empty()) m["trainer.data_digest"] = s.data_digest;
  if (!s.validation_digest.empty()) m["trainer.validation_digest"] = s.validation_digest;
}

RunState get_run_state(const TensorFile& file, const std::string& path) {
  const Reader read(file, path);
  if (read.text("trainer.format") != k_format)
    read.refuse("is of the format '" + read.text("trainer.format").substr(0, 40) + "'");
  RunState s;
  s.update = read.number<std::int64_t>("trainer.update");
  s.seed = read.number<std::uint64_t>("trainer.seed");
  s.batches_per_epoch = read.number<std::int64_t>("trainer.batches_per_epoch");
  s.accumulate = read.number<std::int64_t>("trainer.accumulate");
  s.metrics_bytes = read.number<std::size_t>("trainer.metrics_bytes");
  if (read.text("trainer.best_loss") != "none") s.best_loss = read.number<double>("trainer.best_loss");
  s.last_loss = read.number<double>("trainer.last_loss");
  s.validations_without_better = read.number<std::int64_t>("trainer.validations_without_better");
  s.plateau.plateaus = read.number<std::int64_t>("trainer.plateaus");
  s.plateau.waited = read.number<std::int64_t>("trainer.plateau_waited");
  s.rollbacks = read.number<std::int64_t>("trainer.rollbacks");
  if (file.metadata.contains("trainer.data_digest")) s.data_digest = read.text("trainer.data_digest");
  if (file.metadata.contains("trainer.validation_digest")) s.validation_digest = read.text("trainer.validation_digest");
  const std::string prefix = "trainer.best.";
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(prefix)) s.best_metrics[key.substr(prefix.size())] = read.number<double>(key);
  if (s.update < 0 || s.plateau.plateaus < 0 || s.plateau.waited < 0 || s.rollbacks < 0)
    read.refuse("has a negative count");
  return s;
}

void put_digest(TensorFile& file) { file.metadata[k_digest] = digest_of(file); }

void check_digest(const TensorFile& file, const std::string& path) {
  const auto at = file.metadata.find(k_digest);
  if (at == file.metadata.end()) return;
  const std::string now = digest_of(file);
  if (now != at->second)
    throw Error(ErrorKind::input_file, path,
                "is damaged: its content gives " + now + ", it was written with " + at->second.substr(0, 40),
                "Use an older copy of the file");
}

bool is_run_tensor(const std::string& name) {
  for (const char* prefix : {"optimizer.", "average.", "state.", "trainer."})
    if (name.starts_with(prefix)) return true;
  return false;
}

namespace {

TensorFile model_of(TensorFile file, const std::string& path) {
  check_digest(file, path);
  if (!file.metadata.contains("trainer.format")) return file;  // parameters only
  for (auto& [name, tensor] : file.tensors)
    if (const auto average = file.tensors.find("average." + name); average != file.tensors.end())
      tensor = average->second;
  std::erase_if(file.tensors, [](const auto& entry) { return is_run_tensor(entry.first); });
  return file;
}

}  // namespace

TensorFile load_model(const std::string& path, Vfs& vfs) { return model_of(load_safetensors(path, vfs), path); }
TensorFile parse_model(std::span<const std::byte> bytes, const std::string& name) {
  return model_of(parse_safetensors(bytes, name), name);
}

Result<TensorFile> try_load_model(const std::string& path, Vfs& vfs) noexcept {
  return attempt([&] { return load_model(path, vfs); });
}

}  // namespace unroll
