// SPDX-License-Identifier: Apache-2.0
// Files of lines: endings of either kind. Byte order marks at the beginning of a line are skipped
// (frontends/data/text/encoding.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct Line {
  std::string_view text;  // without its ending
  std::size_t number;     // from 1
  std::size_t at;         // of its first byte in the file
};
// Shows every line of something, in order. A second call shows the same ones.
using Lines = std::function<void(const std::function<void(const Line&)>& take)>;
// Of a text, which must outlive them, or of the part of one that begins at byte `at`, behind `n_before` lines.
Lines lines_of(std::string_view text, std::size_t at = 0, std::size_t n_before = 0);

// Error(input_file) about a line, from 1.
[[noreturn]] void refuse_line(const std::string& name, std::size_t number, const std::string& what,
                              const std::string& next = {});
// Throws Error(input_file) naming `name` and the line when it is not UTF-8 or has a NUL byte.
void require_utf8(const Line& line, const std::string& name);

// What a text has before its first line ends.
std::string_view first_line(std::string_view text);

// Calls `take` with each line, which is UTF-8, and its number from 1.
void for_each_line(std::string_view text, const std::string& name,
                   const std::function<void(std::string_view line, std::size_t number)>& take);

// The parts of a line between separators, empty ones too.
std::vector<std::string> cells_between(std::string_view line, char separator);
// The parts of a text between blanks, tabs and line breaks.
std::vector<std::string> words_of(std::string_view line);

}  // namespace unroll
