// SPDX-License-Identifier: Apache-2.0
// A cell of a table by itself: a number, or missing.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "frontends/data/table/csv.h"

namespace unroll {

std::string_view trimmed(std::string_view s) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

std::string lowered(std::string_view cell) {
  std::string small(trimmed(cell));
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

bool is_csv_name(std::string_view file) {
  if (file.ends_with(".gz")) file.remove_suffix(3);
  return file.ends_with(".csv") || file.ends_with(".CSV");
}

std::optional<double> number_in(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() > 1 && cell[0] == '+') cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  return value;
}

bool is_missing(std::string_view cell) {
  cell = trimmed(cell);
  constexpr std::string_view k_words[] = {"", "nan", "na", "n/a", "null", "?"};
  return std::any_of(std::begin(k_words), std::end(k_words), [&](std::string_view word) {
    return std::equal(cell.begin(), cell.end(), word.begin(), word.end(),
                      [](unsigned char a, char b) { return std::tolower(a) == b; });
  });
}

}  // namespace unroll
