// SPDX-License-Identifier: Apache-2.0
// The files of a run. A save writes lines of metrics.jsonl, then best.safetensors, then last.safetensors. If it is
// interrupted, last.safetensors names a point to which the other two can be restored. Each of the last `keep` saves
// stays as checkpoint-UPDATE.safetensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/train/files/checkpoint.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll {

inline constexpr std::size_t k_max_metrics_bytes = std::size_t{1} << 32;

class RunFolder {
 public:
  using Warn = std::function<void(const std::string&)>;
  // With an empty path nothing is read or written.
  RunFolder(std::string path, Vfs& vfs, Warn warn, std::int64_t keep = 0)
      : path_(std::move(path)), vfs_(vfs), warn_(std::move(warn)), keep_(keep) {}

  // Makes the folder. With resume, the newest whole checkpoint in it, if there is one. Throws Error(usage) when the
  // folder holds a run and neither is set, Error(storage) when it cannot be written.
  std::optional<TensorFile> open(bool resume, bool overwrite);
  // Cuts metrics.jsonl to the length it had at a checkpoint.
  void cut_metrics(std::size_t bytes);

  std::string metrics() const;        // what metrics.jsonl holds
  void log(const std::string& line);  // does not throw: what cannot be written now is kept for the next time
  void set_best(TensorFile best);     // the same
  std::size_t metrics_bytes() const { return written_ + pending_.size(); }
  bool is_open() const { return !path_.empty(); }
  const std::string& loaded_path() const { return loaded_; }  // what open() gave
  std::string last_path() const { return file("last.safetensors"); }
  std::string best_path() const { return file("best.safetensors"); }
  Vfs& vfs() const { return vfs_; }

  // Writes everything that is waiting and `last`. A failure is a warning: the old files stay as they are.
  void save(const TensorFile& last, std::int64_t update);
  // Throws the Error(storage) of the last save when it failed.
  void require_saved() const;

 private:
  std::string file(const char* name) const { return path_ + "/" + name; }
  std::string kept_path(std::int64_t update) const;
  std::vector<std::int64_t> kept() const;  // updates of kept checkpoints, newest first
  std::optional<TensorFile> newest_whole();
  void keep(std::int64_t update);
  void flush_metrics(bool sync);
  void flush_best();
  // Runs it and turns a storage error into a warning.
  template <class F> bool attempt(const F& write);

  std::string path_;
  Vfs& vfs_;
  Warn warn_;
  std::int64_t keep_;
  std::string loaded_;
  std::size_t written_ = 0;  // bytes of metrics.jsonl that are surely right
  std::string pending_;
  bool metrics_are_torn_ = false;  // there may be bytes behind written_
  std::optional<TensorFile> best_;
  std::optional<Error> failure_;  // of the last save
};

}  // namespace unroll
