// SPDX-License-Identifier: Apache-2.0
// Making a run folder, and reading back what `unroll train` left in one: the resolved config and one of the two
// checkpoints; or a config and weights that lie elsewhere.
#pragma once

#include <optional>
#include <string>

#include "frontends/config/run/config_file.h"
#include "unroll/io/safetensors.h"

namespace unroll::cli {

struct RunFolder {
  Config config;
  TensorFile model;
  std::string folder;  // where a relative data.path starts
};
// `config` names the folder and `checkpoint` the file in it; with `weights` they are a config file
// and a safetensors file. Throws Error(input_file).
RunFolder open_run(const RunArguments& options);

// Throws Error(usage) when --set has a key of [data]: a trained model reads new inputs as training did.
void refuse_data_settings(const RunArguments& options, std::string_view command);

// Makes the folder. Throws Error(usage) when it is a file or, without `resume`, holds anything but the files of a start
// that failed, which are removed.
void prepare_run_folder(const std::string& folder, bool resume);
// Whether the folder holds a checkpoint to resume from.
bool holds_checkpoint(const std::string& folder);

// An advisory lock on a folder, held while this lives. Where the file system has no locks, nothing is held.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);  // throws Error(usage) when another process holds the lock
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;  // file descriptor; -1: none
};

// A run folder while a run starts, and the lock on it. If the start fails, the destructor removes the folder, unless it
// existed before or the run has written a checkpoint or metrics.
class StartingRunFolder {
 public:
  // Throws Error(usage) as prepare_run_folder does, and when another process trains in the folder.
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

// A run folder must find the data from wherever it is read.
void make_data_path_absolute(Config& config, const std::string& config_path);
void save_config(const Config& config, const std::string& path);

}  // namespace unroll::cli
