// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch/records.h"

#include <algorithm>
#include <numeric>

#include "core/data/text/encoding.h"
#include "core/support/interruption.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::size_t k_piece = std::size_t{1} << 18;  // bytes per read

}  // namespace

RecordFile::RecordFile(std::string_view text, std::string name) {
  parts_.push_back({std::move(name), std::string(text), nullptr, 0, text.size()});
}

RecordFile::RecordFile(std::shared_ptr<const Vfs::Reader> file, std::string name, std::size_t memory_limit)
    : memory_limit_(memory_limit) {
  append(std::move(file), std::move(name));
}

void RecordFile::append(std::shared_ptr<const Vfs::Reader> file, std::string name) {
  const std::size_t begin = parts_.empty() ? 0 : parts_.back().begin + parts_.back().size, size = file->size();
  Part part{std::move(name), {}, std::move(file), begin, size};
  if (memory_limit_ == 0 || begin + size <= memory_limit_) {
    part.held.resize(size);
    part.file->read_at(0, std::as_writable_bytes(std::span(part.held)));
    part.file.reset();
  }
  parts_.push_back(std::move(part));
}

const RecordFile::Part& RecordFile::part_at(std::size_t at) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), at,
                                      [](std::size_t byte, const Part& part) { return byte < part.begin; });
  return *(after - 1);
}

std::string RecordFile::read(std::size_t begin, std::size_t end) const {
  const Part& part = part_at(begin);
  if (!part.file) return part.held.substr(begin - part.begin, end - begin);
  std::string text(end - begin, '\0');
  part.file->read_at(begin - part.begin, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string RecordFile::head(std::size_t file) const {
  constexpr std::size_t k_most = std::size_t{1} << 20;
  const Part& part = parts_[file];
  std::string text;
  for (std::size_t n = k_piece; n <= k_most && text.size() < part.size && text.find('\n') == std::string::npos; n *= 2)
    text = read(part.begin, part.begin + std::min(part.size, n));
  if (text.size() < part.size) text.resize(text.rfind('\n') + 1);
  return text;
}

void RecordFile::for_each_line(const std::function<void(const Line&)>& take, std::size_t file) const {
  const Part& part = parts_[file];
  const auto show = [&](const Line& line) { take({line.text, line.number, part.begin + line.at}); };
  if (!part.file) return lines_of(part.held)(show);
  std::string piece;  // the bytes from `at` on
  std::size_t at = 0, number = 0;
  for (std::size_t end = 0; end < part.size || !piece.empty();) {
    const std::size_t next = std::min(part.size, end + k_piece);
    piece += read(part.begin + end, part.begin + next);
    end = next;
    // Only whole lines, except in the last piece, which ends with the last line.
    const std::size_t whole = end == part.size ? piece.size() : piece.rfind('\n') + 1;
    lines_of(std::string_view(piece).substr(0, whole), at, number)([&](const Line& line) {
      number = line.number;
      show(line);
    });
    piece.erase(0, whole);
    at += whole;
    if (piece.size() > k_max_line)
      refuse_line(part.name, number + 1, "has more than " + std::to_string(k_max_line) + " bytes");
  }
}

void RecordFile::require_text_at_start(std::size_t file) const {
  const Part& part = parts_[file];
  const std::size_t looked_at = std::min(part.size, k_start_bytes);
  if (looked_at > 0)
    require_start_of_text(read(part.begin, part.begin + looked_at), looked_at == part.size, part.name);
}

Lines RecordFile::lines(std::size_t file) const {
  require_text_at_start(file);
  return [this, file](const std::function<void(const Line&)>& take) { for_each_line(take, file); };
}

std::vector<std::int64_t> RecordFile::records_of(std::size_t file) const {
  const auto first = [&](std::size_t byte) {
    return static_cast<std::int64_t>(std::lower_bound(begins_.begin(), begins_.end(), byte) - begins_.begin());
  };
  const std::int64_t begin = first(parts_[file].begin);
  const std::int64_t end = file + 1 < n_files() ? first(parts_[file + 1].begin) : size();
  std::vector<std::int64_t> records(end - begin);
  std::iota(records.begin(), records.end(), begin);
  return records;
}

std::vector<std::size_t> RecordFile::line_numbers() const {
  std::vector<std::size_t> numbers;
  for (std::size_t f = 0; f < n_files(); ++f)
    for_each_line(
        [&](const Line& line) {
          if (numbers.size() < begins_.size() && line.at == begins_[numbers.size()]) numbers.push_back(line.number);
        },
        f);
  if (numbers.size() != begins_.size()) refuse_changed();
  return numbers;
}

std::size_t RecordFile::end_of(std::int64_t record) const {
  const std::size_t next = record + 1;
  const Part& part = part_at(begins_[next - 1]);
  const std::size_t end = part.begin + part.size;
  return next < begins_.size() ? std::min<std::size_t>(begins_[next], end) : end;
}

std::string RecordFile::text(std::int64_t record) const {
  return read(begins_[record], end_of(record));
}

void RecordFile::visit(std::int64_t n, const std::function<std::int64_t(std::int64_t)>& which, const Take& take) const {
  std::string piece;
  std::size_t from = 0;  // start of the piece
  for (std::int64_t i = 0; i < n; ++i) {
    check_interruption();
    const std::int64_t record = which(i);
    const std::size_t begin = begins_[record], end = end_of(record);
    if (begin < from || end > from + piece.size()) {
      const Part& part = part_at(begin);
      piece = read(begin, std::max(end, std::min(part.begin + part.size, begin + k_piece)));
      from = begin;
    }
    take(record, std::string_view(piece).substr(begin - from, end - begin));
  }
}

void RecordFile::for_each(std::span<const std::int64_t> records, const Take& take) const {
  visit(std::ssize(records), [&](std::int64_t i) { return records[i]; }, take);
}

void RecordFile::for_each(const Take& take) const { visit(size(), [](std::int64_t i) { return i; }, take); }

void RecordFile::refuse(std::int64_t record, const std::string& what, const std::string& next,
                        std::size_t within) const {
  const std::size_t at = begins_[record];
  const Part& part = part_at(at);
  std::size_t number = 0;
  for_each_line([&](const Line& line) { number = line.at <= at ? line.number : number; },
                &part - parts_.data());
  refuse_line(part.name, number + within, what, next);
}

void RecordFile::refuse_changed() const {
  throw Error(ErrorKind::input_file, name(), "changed while it was in use",
              "Do not modify the file while it is in use");
}

}  // namespace unroll
