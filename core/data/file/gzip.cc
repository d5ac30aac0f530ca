// SPDX-License-Identifier: Apache-2.0
#include "core/data/file/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/data/file/held_text.h"
#include "core/support/interruption.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_gzip_piece = std::size_t{1} << 18;  // bytes per read
constexpr std::size_t k_no_limit = std::size_t{1} << 34;

}  // namespace

bool begins_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= k_gzip_magic_bytes && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

GzipUnpacker::GzipUnpacker(std::string name) : name_(std::move(name)), stream_(std::make_unique<z_stream_s>()) {
  constexpr int k_gzip_only = 16 + MAX_WBITS;
  if (inflateInit2(stream_.get(), k_gzip_only) != Z_OK) throw Error(ErrorKind::memory, name_, "cannot be unpacked");
}

GzipUnpacker::~GzipUnpacker() { inflateEnd(stream_.get()); }

void GzipUnpacker::feed(std::span<const std::byte> bytes, std::string& text, std::size_t limit) {
  // zlib does not write to its input.
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream_->avail_in = static_cast<uInt>(bytes.size());
  while (stream_->avail_in > 0) {
    inside_ = true;
    take_piece(text, limit);
  }
}

void GzipUnpacker::finish() const {
  if (inside_ || first_) refuse("ends too early");
}

// Unpacks up to the end of the input or of a member.
void GzipUnpacker::take_piece(std::string& text, std::size_t limit) {
  std::array<char, 65536> out;
  while (true) {
    check_interruption();
    stream_->next_out = reinterpret_cast<Bytef*>(out.data());
    stream_->avail_out = static_cast<uInt>(out.size());
    const int status = inflate(stream_.get(), Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      refuse(first_ || stream_->total_in > k_gzip_magic_bytes ? "is damaged" : "is followed by other bytes");
    text.append(out.data(), out.size() - stream_->avail_out);
    if (text.size() > limit)
      throw Error(ErrorKind::input_file, name_, "unpacks to more than " + std::to_string(limit) + " bytes",
                  "Unpack it with gzip -d, because plain files are streamed; or raise data.memory_limit");
    if (status == Z_STREAM_END) {
      inflateReset(stream_.get());
      inside_ = first_ = false;
      return;
    }
    if (stream_->avail_out > 0) return;
  }
}

void GzipUnpacker::refuse(const std::string& what) const {
  throw Error(ErrorKind::input_file, name_, "the gzip file " + what, "Check it with gzip -t, and copy it again");
}

std::shared_ptr<const Vfs::Reader> unpacked(std::shared_ptr<const Vfs::Reader> file, const std::string& name,
                                            std::size_t limit) {
  std::vector<std::byte> piece(std::min(file->size(), k_gzip_piece));
  file->read_at(0, piece);
  if (!begins_gzip(piece)) return file;
  GzipUnpacker unpacker(name);
  std::string text;
  for (std::size_t at = 0; at < file->size(); at += piece.size()) {
    piece.resize(std::min(piece.size(), file->size() - at));
    file->read_at(at, piece);
    unpacker.feed(piece, text, limit == 0 ? k_no_limit : limit);
  }
  unpacker.finish();
  return std::make_shared<OwnedText>(std::move(text));
}

}  // namespace unroll
