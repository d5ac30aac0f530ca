// SPDX-License-Identifier: Apache-2.0
// Files compressed with gzip: as a stream of bytes, and as data files. Tasks read their data repeatedly and in any
// order, so a compressed data file is unpacked into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "unroll/support/export.h"
#include "unroll/support/vfs.h"

struct z_stream_s;  // from zlib.h

namespace unroll {

inline constexpr std::size_t k_gzip_magic_bytes = 2;
// True if the bytes begin a gzip file. Pass at least k_gzip_magic_bytes.
UNROLL_API bool begins_gzip(std::span<const std::byte> bytes);

// Unpacks a file piece by piece. A file of several members, such as from `cat a.gz b.gz`, is one text.
class UNROLL_API GzipUnpacker {
 public:
  explicit GzipUnpacker(std::string name);  // name in errors
  ~GzipUnpacker();
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  // Unpacks the next bytes of the file and appends the text. Throws Error(input_file) if they are damaged, or if `text`
  // exceeds `limit`.
  void feed(std::span<const std::byte> bytes, std::string& text, std::size_t limit);
  // Call after the last bytes. Throws Error(input_file) if the file is truncated.
  void finish() const;

 private:
  void take_piece(std::string& text, std::size_t limit);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string name_;
  std::unique_ptr<z_stream_s> stream_;
  bool inside_ = false;  // inside a member
  bool first_ = true;
};

// Returns a reader of the unpacked contents for a gzip file, and any other file unchanged. Throws Error(input_file) on
// a damaged file, and above `limit` unpacked bytes (0: 16 GiB).
UNROLL_API std::shared_ptr<const Vfs::Reader> unpacked(std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                       std::size_t limit);

}  // namespace unroll
