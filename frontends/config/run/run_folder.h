// SPDX-License-Identifier: Apache-2.0
// Creates a run folder, and reads the results of `unroll train`: the resolved config and one of the two checkpoints, or
// a config and weights in other places.
#pragma once

#include <optional>
#include <string>

#include "frontends/config/run/config_file.h"
#include "unroll/io/safetensors.h"

namespace unroll::cli {

struct RunFolder {
  Config config;
  TensorFile model;
  std::string folder;  // a relative data.path starts here
};
// `config` is the folder and `checkpoint` the file in it; with `weights` they are a config file and a safetensors file.
// Throws Error(input_file).
RunFolder open_run(const RunArguments& options);

// Throws Error(usage) if --set has a key of [data]: a trained model reads new inputs as training did.
void refuse_data_settings(const RunArguments& options, std::string_view command);

// Creates the folder. Throws Error(usage) if it is a file or, without `resume`, contains files other than those of a
// failed start, which are removed.
void prepare_run_folder(const std::string& folder, bool resume);
// True if the folder has a checkpoint to resume from.
bool holds_checkpoint(const std::string& folder);

// An advisory lock on a folder during the object's lifetime. On a file system without locks it has no effect.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  // throws Error(usage) if another process holds the lock
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;  // file descriptor; -1: none
};

// A run folder during the start of a run, and its lock. If the start fails, the destructor removes the folder, unless
// it existed before or the run has written a checkpoint or metrics.
class StartingRunFolder {
 public:
  // Throws Error(usage) as prepare_run_folder, and if another process trains in the folder.
  StartingRunFolder(std::string folder, bool resume);
  ~StartingRunFolder();
  StartingRunFolder(const StartingRunFolder&) = delete;
  StartingRunFolder& operator=(const StartingRunFolder&) = delete;
  void keep() { created_ = false; }

 private:
  std::string folder_;
  bool created_;
  std::optional<FolderLock> lock_;
};

// The config in a run folder must find the data from any working directory.
void make_data_path_absolute(Config& config, const std::string& config_path);
void save_config(const Config& config, const std::string& path);

}  // namespace unroll::cli
