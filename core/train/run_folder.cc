// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_folder.h"

#include <algorithm>

namespace unroll {

namespace {

constexpr std::size_t k_max_metrics_bytes = std::size_t{1} << 32;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::optional<TensorFile> RunFolder::open(bool resume, bool overwrite) {
  if (!is_open()) return std::nullopt;
  vfs_.make_folder(path_);
  const bool has_last = vfs_.exists(last_path()), has_best = vfs_.exists(best_path());
  if (resume && has_last) {
    TensorFile last = load_safetensors(last_path(), vfs_);
    check_digest(last, last_path());
    return last;
  }
  if (!resume && !overwrite && (has_last || has_best))
    throw Error(ErrorKind::usage, path_, "already holds a run",
                "Resume it, choose another folder, or allow to overwrite it");
  if (resume) warn_("there is no checkpoint in " + path_ + " yet: starting from the beginning");
  if (overwrite && !resume)
    for (const char* name : {"last.safetensors", "best.safetensors"}) vfs_.remove(file(name));
  vfs_.create(file("metrics.jsonl"))->close();
  return std::nullopt;
}

void RunFolder::cut_metrics(std::size_t bytes) {
  if (!is_open()) return;
  const std::string path = file("metrics.jsonl");
  if (!vfs_.exists(path)) vfs_.create(path)->close();
  const std::size_t size = vfs_.read(path, k_max_metrics_bytes).size();
  if (size < bytes)
    warn_(path + " is shorter than the checkpoint says (" + std::to_string(size) + " of " + std::to_string(bytes) +
          " bytes): lines are lost");
  written_ = std::min(size, bytes);
  if (size > written_) vfs_.truncate(path, written_);
}

template <class F>
bool RunFolder::attempt(const F& write) {
  try {
    write();
    return true;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::storage) throw;
    if (!failure_) warn_(std::string(e.what()) + ". Training goes on; the next save tries again");
    failure_ = e;
    return false;
  }
}

void RunFolder::flush_metrics(bool sync) {
  if (pending_.empty() && !sync) return;
  const std::string path = file("metrics.jsonl");
  if (metrics_are_torn_) vfs_.truncate(path, written_);
  metrics_are_torn_ = true;
  const auto out = vfs_.append(path);
  if (!pending_.empty()) out->write(bytes_of(pending_));
  if (sync) out->sync();
  out->close();
  metrics_are_torn_ = false;
  written_ += pending_.size();
  pending_.clear();
}

void RunFolder::flush_best() {
  if (!best_) return;
  save_safetensors(best_path(), *best_, vfs_);
  best_.reset();
}

void RunFolder::log(const std::string& line) {
  if (!is_open()) return;
  pending_ += line + "\n";
  attempt([&] { flush_metrics(false); });
}

void RunFolder::set_best(TensorFile best) {
  if (!is_open()) return;
  best_ = std::move(best);
  attempt([&] { flush_best(); });
}

void RunFolder::save(const TensorFile& last) {
  if (!is_open()) return;
  const bool had_failed = failure_.has_value();
  const bool saved = attempt([&] {
    flush_metrics(true);
    flush_best();
    save_safetensors(last_path(), last, vfs_);
  });
  if (!saved) return;
  failure_.reset();
  if (had_failed) warn_("saving to " + path_ + " works again");
}

void RunFolder::require_saved() const {
  if (failure_) throw Error(*failure_);
}

}  // namespace unroll
