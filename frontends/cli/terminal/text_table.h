// SPDX-License-Identifier: Apache-2.0
// Formats tables for people to fit a width.
#pragma once

#include <string>
#include <vector>

namespace unroll::cli {

struct TextTable {
  std::vector<std::string> head;               // empty: no line of headings
  std::vector<std::vector<std::string>> rows;  // a row may have fewer cells
};

// Each line begins with `indent` spaces. Columns of numbers are right-aligned. In a table that is too wide, the cells
// of the last column are wrapped. If that is not enough, the columns are folded into tables below each other, each with
// the first column. If a single column does not fit, each row becomes a list.
std::string table_text(const TextTable& table, std::size_t width, std::size_t indent);

// "1.3806", "0.05", "1.2e-07", "1,115,394"
std::string figure_text(double value);
std::string count_text(long long value);
std::string with_commas(std::string digits);  // "1234567": "1,234,567"

}  // namespace unroll::cli
