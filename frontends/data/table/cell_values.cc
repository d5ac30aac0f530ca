// SPDX-License-Identifier: Apache-2.0
// A cell of a table by itself: a number, or missing.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

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
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  return value;
}

bool CsvFormat::is_missing(std::string_view cell) const {
  cell = trimmed(cell);
  if (cell.empty()) return true;
  const auto is_word = [&](const std::string& word) {
    return std::equal(cell.begin(), cell.end(), word.begin(), word.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (std::any_of(missing.begin(), missing.end(), is_word)) return true;
  const bool may_be_nan = cell.find_first_of("nN") != std::string_view::npos;
  const bool has_numbers = std::any_of(missing.begin(), missing.end(), [](auto& word) { return number_in(word); });
  const std::optional<double> number = may_be_nan || has_numbers ? number_in(cell) : std::nullopt;
  if (!number) return false;
  return std::isnan(*number) || std::any_of(missing.begin(), missing.end(),
                                            [&](const std::string& word) { return number_in(word) == number; });
}

}  // namespace unroll
