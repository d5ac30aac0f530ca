// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/records.h"

#include <algorithm>

#include "unroll/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_piece = std::size_t{1} << 18;  // bytes that are read at once

}  // namespace

RecordFile::RecordFile(std::string_view text, std::string name)
    : name_(std::move(name)), held_(text), size_(text.size()) {}

RecordFile::RecordFile(std::shared_ptr<const Vfs::Reader> file, std::string name, std::size_t memory_limit)
    : name_(std::move(name)), file_(std::move(file)), size_(file_->size()) {
  if (memory_limit > 0 && size_ > memory_limit) return;
  held_ = read(0, size_);
  file_.reset();
}

std::string RecordFile::read(std::size_t begin, std::size_t end) const {
  if (!file_) return held_.substr(begin, end - begin);
  std::string text(end - begin, '\0');
  file_->read_at(begin, std::as_writable_bytes(std::span(text)));
  return text;
}

void RecordFile::for_each_line(const std::function<void(const Line&)>& take) const {
  if (!file_) return lines_of(held_)(take);
  std::string piece;  // the bytes from `at` on
  std::size_t at = 0, number = 0;
  for (std::size_t end = 0; end < size_ || !piece.empty();) {
    const std::size_t next = std::min(size_, end + k_piece);
    piece += read(end, next);
    end = next;
    // Whole lines alone, but for the last piece: its end is the end of a line.
    const std::size_t whole = end == size_ ? piece.size() : piece.rfind('\n') + 1;
    lines_of(std::string_view(piece).substr(0, whole), at, number)([&](const Line& line) {
      number = line.number;
      take(line);
    });
    piece.erase(0, whole);
    at += whole;
    if (piece.size() > k_max_line)
      refuse_line(name_, number + 1, "has more than " + std::to_string(k_max_line) + " bytes");
  }
}

std::size_t RecordFile::end_of(std::int64_t record) const {
  return record + 1 < size() ? begins_[static_cast<std::size_t>(record) + 1] : size_;
}

std::string RecordFile::text(std::int64_t record) const {
  return read(begins_[static_cast<std::size_t>(record)], end_of(record));
}

void RecordFile::visit(std::int64_t n, const std::function<std::int64_t(std::int64_t)>& which, const Take& take) const {
  std::string piece;
  std::size_t from = 0;  // where it begins
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t record = which(i);
    const std::size_t begin = begins_[static_cast<std::size_t>(record)], end = end_of(record);
    if (end > from + piece.size()) {
      piece = read(begin, std::max(end, std::min(size_, begin + k_piece)));
      from = begin;
    }
    take(record, std::string_view(piece).substr(begin - from, end - begin));
  }
}

void RecordFile::for_each(std::span<const std::int64_t> records, const Take& take) const {
  visit(static_cast<std::int64_t>(records.size()), [&](std::int64_t i) { return records[static_cast<std::size_t>(i)]; },
        take);
}

void RecordFile::for_each(const Take& take) const { visit(size(), [](std::int64_t i) { return i; }, take); }

void RecordFile::refuse(std::int64_t record, const std::string& what, const std::string& next,
                        std::size_t within) const {
  std::size_t number = 0;
  for_each_line([&](const Line& line) {
    if (line.at <= begins_[static_cast<std::size_t>(record)]) number = line.number;
  });
  refuse_line(name_, number + within, what, next);
}

void RecordFile::refuse_changed() const {
  throw Error(ErrorKind::input_file, name_, "is no longer what it was when it was read first",
              "Leave the file as it is while it is used");
}

}  // namespace unroll
