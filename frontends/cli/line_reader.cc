// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "unroll/error.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_piece = std::size_t{1} << 16;

// Bytes read, 0 at the end.
std::size_t read_some(int file, char* to, std::size_t size, const std::string& name) {
  for (;;) {
    const ssize_t n = ::read(file, to, size);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR)
      throw Error(ErrorKind::input_file, name, fmt::format("reading failed: {}", std::strerror(errno)));
  }
}

}  // namespace

LineReader::LineReader(const std::string& path, bool skips_blank)
    : name_(path.empty() || path == "-" ? "stdin" : path), file_(STDIN_FILENO), skips_blank_(skips_blank) {
  if (name_ != path) return;
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0)
    throw Error(ErrorKind::input_file, path, fmt::format("cannot be opened: {}", std::strerror(errno)));
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
    n += std::count(piece.begin(), piece.begin() + size, '\n');
    last = piece[static_cast<std::size_t>(size) - 1];
    at += size;
  }
}

bool LineReader::fill() {
  if (ended_) return false;
  buffer_.erase(0, at_);
  searched_ -= std::min(searched_, at_);
  at_ = 0;
  const std::size_t size = buffer_.size();
  buffer_.resize(size + k_piece);
  const std::size_t n = read_some(file_, buffer_.data() + size, k_piece, name_);
  buffer_.resize(size + n);
  ended_ = n == 0;
  return !ended_;
}

// Where the next line ends in the buffer, npos when that is not read yet.
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
  ++number_;
  const std::size_t stop = std::min(end, buffer_.size());
  too_long |= stop - at_ > k_max_line_bytes;
  if (!too_long) line.assign(buffer_, at_, stop - at_);
  at_ = stop + (end != std::string::npos);
  searched_ = at_;
  if (too_long)
    throw Error(ErrorKind::input_file, fmt::format("{}:{}", name_, number_), "the line is longer than 16 MiB");
  if (number_ == 1 && line.starts_with("\x1f\x8b"))
    throw Error(ErrorKind::unsupported, name_, "is packed with gzip",  // no line error: reading cannot go on
                "Unpack it on the way: gzip -dc FILE | unroll predict RUN");
  if (line.ends_with('\r')) line.pop_back();
  if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  return true;
}

bool LineReader::next(std::string& line) {
  do {
    if (!take(line)) return false;
  } while (skips_blank_ && line.find_first_not_of(" \t\r") == std::string::npos);
  return true;
}

}  // namespace unroll::cli
