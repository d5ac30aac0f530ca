// SPDX-License-Identifier: Apache-2.0
// Files of lines: endings of either kind, a byte order mark is skipped, every line is UTF-8.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

// Error(input_file) about a line, from 1.
[[noreturn]] void refuse_line(const std::string& name, std::size_t number, const std::string& what,
                              const std::string& next = {});

// Calls `take` with each line, without its ending, and its number from 1. Throws Error(input_file) naming `name` and
// the line when one is not UTF-8.
void for_each_line(std::string_view text, const std::string& name,
                   const std::function<void(std::string_view line, std::size_t number)>& take);

// The parts of a line between blanks and tabs.
std::vector<std::string> words_of(std::string_view line);

}  // namespace unroll
