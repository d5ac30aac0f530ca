// SPDX-License-Identifier: Apache-2.0
// Data files packed with gzip. Tasks read their data again and again from any place, so that such a file is unpacked
// into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "unroll/export.h"
#include "unroll/vfs.h"

namespace unroll {

// A file that begins with the bytes of gzip as a reader of what it unpacks to, any other file as it is. Throws
// Error(input_file) on damaged files and on one that unpacks to more than `limit` bytes (0: 16 GiB).
UNROLL_API std::shared_ptr<const Vfs::Reader> unpacked(std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                       std::size_t limit);

}  // namespace unroll
