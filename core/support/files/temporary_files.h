// SPDX-License-Identifier: Apache-2.0
// Files with temporary names, which are removed even if a signal ends the process.
#pragma once

#include <cstddef>
#include <string>

#include "unroll/support/export.h"

namespace unroll {

// Returns the path with ".tmp" appended. Cuts names that would become too long.
UNROLL_API std::string temporary_path(const std::string& path);

// Registers a file for remove_temporary_files() during its lifetime. At most 16 files at a time, and paths up to 4095
// bytes, are registered.
class UNROLL_API TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::size_t slot_;
};

// Removes the registered files. Safe in a signal handler.
UNROLL_API void remove_temporary_files() noexcept;

}  // namespace unroll
