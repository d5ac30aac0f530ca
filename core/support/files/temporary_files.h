// SPDX-License-Identifier: Apache-2.0
// Files with temporary names, which a signal that ends the process must not leave behind.
#pragma once

#include <cstddef>
#include <string>

#include "unroll/support/export.h"

namespace unroll {

// A name beside a path, with ".tmp" behind it. A name that would become too long is cut.
UNROLL_API std::string temporary_path(const std::string& path);

// While it lives, remove_temporary_files() removes the file of this name. Beyond 16 at a time, and with a path of more
// than 4095 bytes, a file is not removed.
class UNROLL_API TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::size_t slot_;
};

// Safe in a signal handler.
UNROLL_API void remove_temporary_files() noexcept;

}  // namespace unroll
