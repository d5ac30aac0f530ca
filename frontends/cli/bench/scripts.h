// SPDX-License-Identifier: Apache-2.0
// Python scripts that run a model in other libraries.
#pragma once

#include <filesystem>
#include <string>

#include "core/support/text/shell_word.h"

namespace unroll::cli {

// Beside an installed command, or bench/peers in the sources that a build folder lies in. Throws Error(unsupported) in
// the name of `who` when there is none.
std::filesystem::path folder_of_scripts(const std::string& who);
// What a command wrote to stdout; empty when it failed.
std::string output_of(const std::string& command);
// "torch, numpy"
bool can_import(const std::string& python, const std::string& modules);

// In the folder for temporary files, and removed with all it holds unless it is kept.
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
