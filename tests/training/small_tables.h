// SPDX-License-Identifier: Apache-2.0
// Rows of small tables, and the lines that are printed about them.
#pragma once

#include <string>
#include <vector>

#include "unroll/support/error.h"

namespace unroll::testing {

inline std::string all_lines(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

// Rows below a first line: by column i an index, f a decimal, n an integer, d a date, s a species, t a text that never
// repeats, y a year.
inline std::string below(const std::string& columns, int n = 24, char separator = ',') {
  std::string text;
  for (int r = 0; r < n; ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (c > 0) text += separator;
      const int mixed = (r * 37 + static_cast<int>(c) * 11) % 89;
      switch (columns[c]) {
        case 'i': text += std::to_string(r); break;
        case 'y': text += std::to_string(1950 + r); break;
        case 'f': text += std::to_string(mixed) + "." + std::to_string(1 + mixed % 9); break;
        case 'n': text += std::to_string(3 * mixed + 10); break;
        case 'd': text += "2024-03-" + std::string(r < 9 ? "0" : "") + std::to_string(r + 1); break;
        case 's': text += r % 3 == 0 ? "setosa" : r % 3 == 1 ? "virginica" : "versicolor"; break;
        default: text += "name" + std::string(1, static_cast<char>('a' + r)) + "x"; break;
      }
    }
    text += '\n';
  }
  return text;
}
inline std::string error_of(const auto& call) {
  try {
    (void)call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline std::string quoted(const std::string& cell) { return "\"" + cell + "\""; }

}  // namespace unroll::testing
