// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "frontends/data/held_text.h"
#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_piece = std::size_t{1} << 18;  // bytes that are read at once
constexpr std::size_t k_no_limit = std::size_t{1} << 34;
constexpr std::size_t k_magic = 2;

bool begins_gzip(const Vfs::Reader& file, std::size_t at) {
  if (file.size() < at + k_magic) return false;
  std::array<std::byte, k_magic> bytes{};
  file.read_at(at, bytes);
  return bytes == std::array{std::byte{0x1f}, std::byte{0x8b}};
}

class Inflater {
 public:
  explicit Inflater(const std::string& name) : name_(name) {
    constexpr int k_gzip_only = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, k_gzip_only) != Z_OK) throw Error(ErrorKind::memory, name_, "cannot be unpacked");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // Files of several members, as `cat a.gz b.gz` makes them, are one text.
  std::string run(const Vfs::Reader& file, std::size_t limit) {
    std::string text;
    std::vector<std::byte> piece(k_piece);
    std::size_t at = 0;
    bool open = true;
    while (at < file.size()) {
      const std::size_t n = std::min(k_piece, file.size() - at);
      file.read_at(at, std::span(piece).first(n));
      stream_.next_in = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_in = static_cast<uInt>(n);
      open = !take_piece(text, limit);
      at += n - stream_.avail_in;
      if (open) continue;
      if (at < file.size() && !begins_gzip(file, at)) refuse("is followed by other bytes");
      inflateReset(&stream_);
    }
    if (open) refuse("ends too early");
    return text;
  }

 private:
  // True at the end of a member.
  bool take_piece(std::string& text, std::size_t limit) {
    std::array<char, 65536> out;
    while (true) {
      stream_.next_out = reinterpret_cast<Bytef*>(out.data());
      stream_.avail_out = static_cast<uInt>(out.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) refuse("is damaged");
      text.append(out.data(), out.size() - stream_.avail_out);
      if (text.size() > limit)
        throw Error(ErrorKind::input_file, name_, "unpacks to more than " + std::to_string(limit) + " bytes",
                    "Unpack it with gzip -d, because plain files are streamed; or raise data.memory_limit");
      if (status == Z_STREAM_END) return true;
      if (stream_.avail_out > 0) return false;
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input_file, name_, "the gzip file " + what, "Check it with gzip -t, and copy it again");
  }

  const std::string& name_;
  z_stream stream_{};
};

}  // namespace

std::shared_ptr<const Vfs::Reader> unpacked(std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                            std::size_t limit) {
  if (!begins_gzip(*file, 0)) return file;
  return std::make_shared<OwnedText>(Inflater(name).run(*file, limit == 0 ? k_no_limit : limit));
}

}  // namespace unroll
