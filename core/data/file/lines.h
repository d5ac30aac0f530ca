// SPDX-License-Identifier: Apache-2.0
// Files of lines, with LF or CRLF endings. Byte order marks at the start of a line are skipped
// (core/data/text/encoding.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct Line {
  std::string_view text;  // without the line ending
  std::size_t number;     // from 1
  std::size_t at;         // offset of its first byte in the file
};
// Calls `take` with every line, in order. Repeated calls give the same lines.
using Lines = std::function<void(const std::function<void(const Line&)>& take)>;
// Returns the lines of a text, which must outlive them. `at` and `n_before` are the bytes and lines before the text.
Lines lines_of(std::string_view text, std::size_t at = 0, std::size_t n_before = 0);

// Throws Error(input_file) about a line, numbered from 1.
[[noreturn]] void refuse_line(const std::string& name, std::size_t number, const std::string& what,
                              const std::string& next = {});
// Throws Error(input_file), which names `name` and the line, when it is not UTF-8 or has a NUL byte.
void require_utf8(const Line& line, const std::string& name);

// Returns the text up to the end of its first line.
std::string_view first_line(std::string_view text);

// Calls `take` with each line, which must be UTF-8, and its number from 1.
void for_each_line(std::string_view text, const std::string& name,
                   const std::function<void(std::string_view line, std::size_t number)>& take);

// Splits a line at separators and keeps empty cells.
std::vector<std::string> cells_between(std::string_view line, char separator);
// Splits a text at blanks, tabs and line breaks.
std::vector<std::string> words_of(std::string_view line);

}  // namespace unroll
