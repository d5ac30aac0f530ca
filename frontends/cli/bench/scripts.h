// SPDX-License-Identifier: Apache-2.0
// Python scripts that run a model in other libraries.
#pragma once

#include <filesystem>
#include <string>

#include "core/support/text/shell_word.h"

namespace unroll::cli {

// Returns the folder beside an installed command, or bench/peers of the sources that contain the build folder. Throws
// Error(unsupported) in the name of `who` if neither exists.
std::filesystem::path folder_of_scripts(const std::string& who);
// Returns the stdout of a command; empty if it failed.
std::string output_of(const std::string& command);
// modules: "torch, numpy"
bool can_import(const std::string& python, const std::string& modules);

// A folder in the folder for temporary files, removed with its contents unless it is kept.
struct ScratchFolder {
  explicit ScratchFolder(const std::string& who);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  std::filesystem::path path;
  bool is_kept = false;
};

}  // namespace unroll::cli
