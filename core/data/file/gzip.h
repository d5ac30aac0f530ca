// SPDX-License-Identifier: Apache-2.0
// Files packed with gzip: as a stream of bytes, and as data files. Tasks read their data again and again from any
// place, so a packed data file is unpacked into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "unroll/support/export.h"
#include "unroll/support/vfs.h"

struct z_stream_s;  // of zlib.h

namespace unroll {

inline constexpr std::size_t k_gzip_magic_bytes = 2;
// Whether the bytes are the beginning of a gzip file; at least k_gzip_magic_bytes are needed.
UNROLL_API bool begins_gzip(std::span<const std::byte> bytes);

// Unpacks a file piece by piece. A file of several members, as `cat a.gz b.gz` makes it, is one text.
class UNROLL_API GzipUnpacker {
 public:
  explicit GzipUnpacker(std::string name);  // in errors
  ~GzipUnpacker();
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  // Appends what the next bytes of the file unpack to. Throws Error(input_file) if they are damaged, or if `text`
  // becomes larger than `limit`.
  void feed(std::span<const std::byte> bytes, std::string& text, std::size_t limit);
  // After the last bytes. Throws Error(input_file) if the file is cut off.
  void finish() const;

 private:
  void take_piece(std::string& text, std::size_t limit);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string name_;
  std::unique_ptr<z_stream_s> stream_;
  bool inside_ = false;  // a member has begun and not ended
  bool first_ = true;
};

// A file that begins with the bytes of gzip as a reader of what it unpacks to, any other file as it is. Throws
// Error(input_file) on damaged files and on one that unpacks to more than `limit` bytes (0: 16 GiB).
UNROLL_API std::shared_ptr<const Vfs::Reader> unpacked(std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                                       std::size_t limit);

}  // namespace unroll
