// SPDX-License-Identifier: Apache-2.0
#include "frontends/checkpoint/read/zip.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "frontends/checkpoint/read/budgets.h"
#include "unroll/support/error.h"

namespace unroll::checkpoint {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in the file");

constexpr std::uint32_t k_local = 0x04034b50, k_central = 0x02014b50, k_end = 0x06054b50, k_end64 = 0x06064b50,
                        k_locator64 = 0x07064b50;  // signatures
constexpr std::size_t k_local_bytes = 30, k_central_bytes = 46, k_end_bytes = 22, k_end64_bytes = 56,
                      k_locator64_bytes = 20;
constexpr std::size_t k_max_comment = 65535;
constexpr std::uint16_t k_method_stored = 0, k_method_deflated = 8, k_encrypted = 1, k_zip64_extra = 1;
constexpr std::uint32_t k_in_extra = 0xffffffff;  // the Zip64 field has the number
constexpr std::string_view k_damaged = "the directory of the zip file is damaged";
constexpr std::string_view k_copy_again = "Copy the file again, or save it again with torch.save";

// Unpacks a raw deflate stream, without a header of zlib or gzip. Returns false unless the size is that of `to`.
bool unpack(std::span<const std::byte> packed, std::span<std::byte> to) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(ErrorKind::memory, "zip", "cannot start zlib");
  std::byte beyond{};  // zlib needs an address even for an empty output
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));  // zlib does not write to it
  stream.next_out = reinterpret_cast<Bytef*>(to.empty() ? &beyond : to.data());
  std::size_t in_left = packed.size(), out_left = to.size();
  constexpr std::size_t k_piece = std::numeric_limits<uInt>::max();
  int status = Z_OK;
  while (status == Z_OK) {
    stream.avail_in = static_cast<uInt>(std::min(in_left, k_piece));
    stream.avail_out = static_cast<uInt>(std::min(out_left, k_piece));
    const uInt in = stream.avail_in, out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in_left -= in - stream.avail_in;
    out_left -= out - stream.avail_out;
  }
  inflateEnd(&stream);
  return status == Z_STREAM_END && out_left == 0;
}

}  // namespace

bool begins_zip(std::span<const std::byte> file) {
  constexpr std::byte k_begin[] = {std::byte{'P'}, std::byte{'K'}, std::byte{3}, std::byte{4}};
  return file.size() >= 4 && std::equal(std::begin(k_begin), std::end(k_begin), file.begin());
}

void ZipFile::refuse(const std::string& what, std::string_view next) const {
  throw Error(ErrorKind::input_file, name_, what, next.empty() ? k_copy_again : next);
}

template <class T>
T ZipFile::at(std::uint64_t offset) const {
  if (offset > file_.size() || file_.size() - offset < sizeof(T)) refuse("the zip file ends too early");
  T value;
  std::memcpy(&value, file_.data() + offset, sizeof(T));
  return value;
}

ZipFile::ZipFile(std::span<const std::byte> file, std::string name) : file_(file), name_(std::move(name)) {
  read_directory(find_directory());
}

// Finds the last end record: a comment may follow it.
ZipFile::Directory ZipFile::find_directory() const {
  if (file_.size() < k_end_bytes) refuse("the zip file ends too early");
  const std::size_t last = file_.size() - k_end_bytes;
  const std::size_t first = last > k_max_comment ? last - k_max_comment : 0;
  std::size_t end = last + 1;
  do {
    if (end == first) refuse("the zip file has no directory; it is cut off");
    --end;
  } while (at<std::uint32_t>(end) != k_end || end + k_end_bytes + at<std::uint16_t>(end + 20) != file_.size());
  if (at<std::uint16_t>(end + 4) != at<std::uint16_t>(end + 6)) refuse("the zip file is a part of several");
  Directory found{at<std::uint32_t>(end + 16), at<std::uint32_t>(end + 12), at<std::uint16_t>(end + 10)};
  if (end >= k_locator64_bytes && at<std::uint32_t>(end - k_locator64_bytes) == k_locator64) {
    const auto end64 = at<std::uint64_t>(end - k_locator64_bytes + 8);
    if (end64 > end || end - end64 < k_end64_bytes || at<std::uint32_t>(end64) != k_end64)
      refuse("the Zip64 record is damaged");
    found = {at<std::uint64_t>(end64 + 48), at<std::uint64_t>(end64 + 40), at<std::uint64_t>(end64 + 32)};
  }
  if (found.offset > end || found.bytes > end - found.offset) refuse(std::string(k_damaged));
  if (found.entries > k_max_entries)
    refuse("the zip file has " + std::to_string(found.entries) + " entries; at most " + std::to_string(k_max_entries) +
           " are read");
  return found;
}

void ZipFile::read_directory(const Directory& directory) {
  std::uint64_t p = directory.offset;
  const std::uint64_t end = directory.offset + directory.bytes;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (end - p < k_central_bytes || at<std::uint32_t>(p) != k_central) refuse(std::string(k_damaged));
    const std::uint64_t name_bytes = at<std::uint16_t>(p + 28), extra_bytes = at<std::uint16_t>(p + 30),
                        comment_bytes = at<std::uint16_t>(p + 32);
    if (end - p - k_central_bytes < name_bytes + extra_bytes + comment_bytes || name_bytes > k_max_name_bytes)
      refuse(std::string(k_damaged));
    std::string name(reinterpret_cast<const char*>(file_.data()) + p + k_central_bytes, name_bytes);
    Entry entry{at<std::uint32_t>(p + 42), at<std::uint32_t>(p + 20), at<std::uint32_t>(p + 24),
                at<std::uint32_t>(p + 16), at<std::uint16_t>(p + 10)};
    if (at<std::uint16_t>(p + 8) & k_encrypted)
      refuse("entry '" + name + "' is encrypted", "Save it without a password");
    // Zip64: 8 bytes each for the size, the packed size and the offset, if the 32-bit field is full, in this order.
    std::uint64_t extra = p + k_central_bytes + name_bytes;
    const std::uint64_t extra_end = extra + extra_bytes;
    while (extra_end - extra >= 4) {
      const auto id = at<std::uint16_t>(extra), bytes = at<std::uint16_t>(extra + 2);
      extra += 4;
      if (bytes > extra_end - extra) refuse("entry '" + name + "' has a damaged field");
      std::uint64_t wide = extra;
      for (std::uint64_t* field : {&entry.size, &entry.packed, &entry.offset}) {
        if (id != k_zip64_extra || *field != k_in_extra || extra + bytes - wide < 8) continue;
        *field = at<std::uint64_t>(wide);
        wide += 8;
      }
      extra += bytes;
    }
    if (!entries_.emplace(name, entry).second) refuse("the zip file has two entries '" + name + "'");
    p += k_central_bytes + name_bytes + extra_bytes + comment_bytes;
  }
}

std::span<const std::byte> ZipFile::read(std::string_view entry, std::size_t limit,
                                         std::vector<std::byte>& storage) const {
  const auto found = entries_.find(entry);
  const std::string who = "entry '" + std::string(entry) + "'";
  if (found == entries_.end()) refuse("the zip file has no " + who);
  const Entry& e = found->second;
  if (e.size > limit) refuse(who + " has " + std::to_string(e.size) + " bytes; at most " + std::to_string(limit) +
                             " are read");
  if (at<std::uint32_t>(e.offset) != k_local) refuse(who + " is damaged");
  const std::uint64_t begin =
      e.offset + k_local_bytes + at<std::uint16_t>(e.offset + 26) + at<std::uint16_t>(e.offset + 28);
  if (begin > file_.size() || e.packed > file_.size() - begin) refuse(who + " ends behind the end of the file");
  const auto packed = file_.subspan(begin, e.packed);
  std::span<const std::byte> bytes = packed;
  if (e.method == k_method_deflated) {
    if (e.size / k_max_deflate_ratio > e.packed) refuse(who + " unpacks to more than deflate can pack");
    storage.assign(e.size, std::byte{});
    if (!unpack(packed, storage)) refuse(who + " is damaged");
    bytes = storage;
  } else if (e.method != k_method_stored) {
    refuse(who + " is packed with method " + std::to_string(e.method), "Pack it with deflate, or not at all");
  } else if (e.packed != e.size) {
    refuse(who + " is damaged");
  }
  // torch.serialization.set_crc32_options(False) leaves zeros.
  if (e.crc != 0 && crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != e.crc)
    refuse(who + " is damaged: its checksum differs");
  return bytes;
}

}  // namespace unroll::checkpoint
