// SPDX-License-Identifier: Apache-2.0
#include "core/train/files/run_folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace unroll {

namespace {

constexpr std::string_view k_kept = "checkpoint-", k_kept_end = ".safetensors";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::optional<TensorFile> RunFolder::open(bool resume, bool overwrite) {
  if (!is_open()) return std::nullopt;
  vfs_.make_folder(path_);
  const bool has_last = vfs_.exists(last_path()), has_best = vfs_.exists(best_path());
  if (resume)
    if (std::optional<TensorFile> found = newest_whole()) return found;
  if (!resume && !overwrite && (has_last || has_best))
    throw Error(ErrorKind::usage, path_, "already holds a run",
                "Resume it, choose another folder, or allow to overwrite it");
  if (resume) warn_("there is no checkpoint in " + path_ + " yet: starting from the beginning");
  if (overwrite && !resume) {
    for (const char* name : {"last.safetensors", "best.safetensors"}) vfs_.remove(file(name));
    for (const std::int64_t update : kept()) vfs_.remove(kept_path(update));
  }
  vfs_.create(file("metrics.jsonl"))->close();
  return std::nullopt;
}

std::string RunFolder::kept_path(std::int64_t update) const {
  return file((std::string(k_kept) + std::to_string(update) + std::string(k_kept_end)).c_str());
}

std::vector<std::int64_t> RunFolder::kept() const {
  std::vector<std::int64_t> updates;
  for (const std::string& name : vfs_.list(path_)) {
    if (!name.starts_with(k_kept) || !name.ends_with(k_kept_end)) continue;
    const char* end = name.data() + name.size() - k_kept_end.size();
    std::int64_t update = 0;
    if (std::from_chars(name.data() + k_kept.size(), end, update).ptr == end) updates.push_back(update);
  }
  std::sort(updates.rbegin(), updates.rend());
  return updates;
}

// A damaged file is passed over where an older one is whole; those that are newer than it go, because the run that goes
// on will write other ones.
std::optional<TensorFile> RunFolder::newest_whole() {
  std::optional<Error> wrong;
  const auto load = [&](const std::string& path) -> std::optional<TensorFile> {
    try {
      TensorFile found = load_safetensors(path, vfs_);
      check_digest(found, path);
      loaded_ = path;
      return found;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::input_file) throw;
      if (!wrong) wrong = e;
      return std::nullopt;
    }
  };
  if (vfs_.exists(last_path()))
    if (auto found = load(last_path())) return found;
  const std::vector<std::int64_t> updates = kept();
  for (std::size_t i = 0; i < updates.size(); ++i) {
    auto found = load(kept_path(updates[i]));
    if (!found) continue;
    warn_((wrong ? std::string(wrong->what()) : last_path() + " is missing") + ". Going on from " + loaded_);
    for (std::size_t newer = 0; newer < i; ++newer) vfs_.remove(kept_path(updates[newer]));
    return found;
  }
  if (wrong) throw Error(*wrong);
  return std::nullopt;
}

// Also called where nothing is to be kept any more: older files go then.
void RunFolder::keep(std::int64_t update) {
  if (keep_ > 0) {
    vfs_.remove(kept_path(update));
    vfs_.link(last_path(), kept_path(update));
  }
  const std::vector<std::int64_t> updates = kept();
  for (auto i = static_cast<std::size_t>(keep_); i < updates.size(); ++i) vfs_.remove(kept_path(updates[i]));
  if (!updates.empty()) vfs_.sync_folder(path_);
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

std::string RunFolder::metrics() const {
  if (!is_open() || written_ == 0) return {};
  const Bytes bytes = vfs_.read(file("metrics.jsonl"), k_max_metrics_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), written_)};
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

void RunFolder::save(const TensorFile& last, std::int64_t update) {
  if (!is_open()) return;
  const bool had_failed = failure_.has_value();
  const bool saved = attempt([&] {
    flush_metrics(true);
    flush_best();
    save_safetensors(last_path(), last, vfs_);
  });
  if (!saved) return;
  failure_.reset();
  try {
    keep(update);
  } catch (const Error& e) {  // the checkpoint itself is there
    warn_(e.what());
  }
  if (had_failed) warn_("saving to " + path_ + " works again");
}

void RunFolder::require_saved() const {
  if (failure_) throw Error(*failure_);
}

}  // namespace unroll
