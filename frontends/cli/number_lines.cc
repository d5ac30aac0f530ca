// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/number_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "unroll/error.h"

namespace unroll::cli {
namespace {

bool is_separator(char c) { return c == ',' || c == ';' || c == ' ' || c == '\t' || c == '\r'; }

[[noreturn]] void refuse(const std::string& file, std::int64_t line, std::size_t column, const std::string& what) {
  throw Error(ErrorKind::input_file, fmt::format("{}:{}:{}", file, line, column + 1), what);
}

}  // namespace

void parse_numbers(std::string_view line, std::span<float> values, const std::string& file, std::int64_t number) {
  std::size_t at = 0, n = 0;
  const auto skip = [&] {
    while (at < line.size() && is_separator(line[at])) ++at;
  };
  for (skip(); at < line.size(); skip()) {
    const std::size_t start = at;
    while (at < line.size() && !is_separator(line[at])) ++at;
    double value = 0;
    const char* const end = line.data() + at;
    const auto [stop, error] = std::from_chars(line.data() + start, end, value);
    const bool fits = error == std::errc() && stop == end && std::isfinite(static_cast<float>(value));
    if (!fits) refuse(file, number, start, "not a finite number");
    if (n == values.size())
      refuse(file, number, start, fmt::format("a step takes {} numbers; got more", values.size()));
    values[n++] = static_cast<float>(value);
  }
  if (n < values.size()) refuse(file, number, at, fmt::format("a step takes {} numbers; got {}", values.size(), n));
}

LineReader::LineReader(const std::string& path, bool skips_blank)
    : name_(path == "-" ? "stdin" : path), file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb")),
      skips_blank_(skips_blank) {
  if (!file_) throw Error(ErrorKind::input_file, path, "cannot be opened");
}

LineReader::~LineReader() {
  if (file_ != stdin) std::fclose(file_);
}

bool LineReader::next(std::string& line) {
  do {
    line.clear();
    int c = std::getc(file_);
    if (c == EOF && !std::ferror(file_)) return false;
    ++number_;
    for (; c != EOF && c != '\n'; c = std::getc(file_)) {
      if (line.size() == k_max_line_bytes) refuse(name_, number_, line.size(), "a line may have at most 16 MiB");
      line.push_back(static_cast<char>(c));
    }
    if (std::ferror(file_)) throw Error(ErrorKind::input_file, name_, "reading failed");
  } while (skips_blank_ && line.find_first_not_of(" \t\r") == std::string::npos);
  return true;
}

}  // namespace unroll::cli
