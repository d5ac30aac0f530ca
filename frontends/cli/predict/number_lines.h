// SPDX-License-Identifier: Apache-2.0
// Parses lines of numbers: each line is one step of a stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace unroll::cli {

// Reads exactly values.size() finite numbers, separated by commas, semicolons, blanks or tabs. Throws Error(input_file)
// with file, line and column.
void parse_numbers(std::string_view line, std::span<float> values, const std::string& file, std::int64_t number);

}  // namespace unroll::cli
