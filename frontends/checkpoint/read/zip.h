// SPDX-License-Identifier: Apache-2.0
// Reads zip archives in memory (PKWARE APPNOTE 6.3.10): stored and deflated entries, Zip64. The central directory has
// the offsets of entries; torch.save omits sizes in the local headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unroll::checkpoint {

bool begins_zip(std::span<const std::byte> file);

class ZipFile {
 public:
  // `file` must outlive the archive. Throws Error(input_file) on a damaged directory, encrypted or duplicate entries,
  // and archives in several parts.
  ZipFile(std::span<const std::byte> file, std::string name);

  struct Entry {
    std::uint64_t offset = 0;  // of the local header
    std::uint64_t packed = 0, size = 0;  // bytes in the file, bytes unpacked
    std::uint32_t crc = 0;
    std::uint16_t method = 0;
  };
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

  // Returns the bytes of an entry: within the file if it is stored, else unpacked into `storage`. Throws
  // Error(input_file) if the entry is missing or damaged, or unpacks to more than `limit`.
  std::span<const std::byte> read(std::string_view entry, std::size_t limit, std::vector<std::byte>& storage) const;

 private:
  struct Directory {
    std::uint64_t offset = 0, bytes = 0, entries = 0;
  };
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  [[noreturn]] void refuse(const std::string& what, std::string_view next = {}) const;
  template <class T>
  T at(std::uint64_t offset) const;

  std::span<const std::byte> file_;
  std::string name_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace unroll::checkpoint
