// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "core/data/text/encoding.h"
#include "core/support/files/file_errors.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

// gzip expands a byte to at most 1,032 bytes: a piece to 16 MiB.
constexpr std::size_t k_piece = std::size_t{1} << 14;
constexpr std::size_t k_no_limit = std::string::npos;

// Returns the number of bytes read, 0 at the end.
std::size_t read_some(int file, char* to, std::size_t size, const std::string& name) {
  for (;;) {
    const ssize_t n = ::read(file, to, size);
    if (n >= 0) return n;
    if (errno != EINTR)
      throw file_error(ErrorKind::input_file, name, "read", errno);
  }
}

}  // namespace

LineReader::LineReader(const std::string& path, bool skips_blank, Unit unit)
    : name_(path.empty() || path == "-" ? "stdin" : path), file_(STDIN_FILENO), skips_blank_(skips_blank), unit_(unit) {
  if (name_ != path) return;
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0)
    throw file_error(ErrorKind::input_file, path, "open", errno);
}

LineReader::~LineReader() {
  if (file_ != STDIN_FILENO) ::close(file_);
}

bool LineReader::is_terminal() const { return ::isatty(file_) == 1; }

bool LineReader::is_file() const {
  struct stat info{};
  return ::fstat(file_, &info) == 0 && S_ISREG(info.st_mode);
}

std::int64_t LineReader::count_lines() const {
  if (!is_file()) return 0;
  std::array<char, k_piece> piece{};
  std::int64_t n = 0;
  char last = '\n';
  for (off_t at = 0;;) {
    const ssize_t size = ::pread(file_, piece.data(), piece.size(), at);
    if (size <= 0) return n + (last != '\n');
    if (at == 0 && begins_gzip(std::as_bytes(std::span(piece).first(size)))) return 0;
    n += std::count(piece.begin(), piece.begin() + size, '\n');
    last = piece[size - 1];
    at += size;
  }
}

std::size_t LineReader::read_piece() {
  const std::size_t size = buffer_.size();
  buffer_.resize(size + k_piece);
  const std::size_t n = read_some(file_, buffer_.data() + size, k_piece, name_);
  buffer_.resize(size + n);
  return n;
}

bool LineReader::fill() try {
  if (ended_) return false;
  buffer_.erase(0, at_);
  searched_ -= std::min(searched_, at_);
  at_ = 0;
  const bool is_first = !std::exchange(begun_, true);
  const std::size_t before = buffer_.size();
  ended_ = read_piece() == 0;
  if (is_first && buffer_ == "\x1f") ended_ = read_piece() == 0;  // first half of gzip's signature
  if (is_first && begins_gzip(std::as_bytes(std::span(buffer_)))) unpacker_.emplace(name_);
  if (unpacker_) {
    const std::string packed = buffer_.substr(before);
    buffer_.resize(before);
    unpacker_->feed(std::as_bytes(std::span(packed)), buffer_, k_no_limit);
    if (ended_) unpacker_->finish();
  }
  return !ended_;
} catch (const Error&) {
  ended_ = broken_ = true;
  throw;
}

// Returns the end of the next line in the buffer, or npos if it is not read yet.
std::size_t LineReader::line_end() {
  const std::size_t end = buffer_.find('\n', std::max(at_, searched_));
  searched_ = end == std::string::npos ? buffer_.size() : end;
  return end;
}

bool LineReader::ready(int milliseconds) {
  while (line_end() == std::string::npos) {
    if (ended_ || buffer_.size() - at_ > k_max_line_bytes) return true;
    pollfd one{file_, POLLIN, 0};
    const int found = ::poll(&one, 1, milliseconds);
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    fill();
  }
  return true;
}

// The encoding of the first line applies to all lines.
void LineReader::require_first_line(const std::string& line, bool is_whole) {
  try {
    require_start_of_text(is_whole ? line : line + '\n', is_whole, name_);
  } catch (const Error&) {
    ended_ = broken_ = true;
    throw;
  }
}

bool LineReader::take(std::string& line) {
  std::size_t end = line_end();
  bool too_long = false;
  while (end == std::string::npos) {
    if (buffer_.size() - at_ > k_max_line_bytes) {  // skipped piece by piece
      too_long = true;
      at_ = buffer_.size();
    }
    if (!fill()) break;
    end = line_end();
  }
  if (end == std::string::npos && at_ == buffer_.size() && !too_long) return false;
  number_ = ++n_lines_;
  const std::size_t stop = std::min(end, buffer_.size());
  too_long |= stop - at_ > k_max_line_bytes;
  if (!too_long) line.assign(buffer_, at_, stop - at_);
  at_ = stop + (end != std::string::npos);
  searched_ = at_;
  if (too_long)
    throw Error(ErrorKind::input_file, fmt::format("{}:{}", name_, number_), "the line is longer than 16 MiB");
  if (number_ == 1) require_first_line(line, end == std::string::npos);
  if (line.ends_with('\r')) line.pop_back();
  line.erase(0, line.size() - without_marks_before(line).size());
  return true;
}

// Appends lines until every quote is closed.
void LineReader::finish_row(std::string& row) {
  const std::int64_t first = number_;
  std::string more;
  const auto is_odd = [](const std::string& text) { return std::count(text.begin(), text.end(), '"') % 2 == 1; };
  for (bool open = is_odd(row); open && row.size() <= k_max_line_bytes && take(more); open = open != is_odd(more))
    row += '\n' + more;
  number_ = first;
}

bool LineReader::next(std::string& line) {
  do {
    if (!take(line)) return false;
    if (unit_ == Unit::csv_row) finish_row(line);
  } while (skips_blank_ && line.find_first_not_of(" \t\r") == std::string::npos);
  return true;
}

}  // namespace unroll::cli
