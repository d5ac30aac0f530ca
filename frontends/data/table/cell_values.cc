// SPDX-License-Identifier: Apache-2.0
// Words for missing values.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "frontends/data/table/csv_lines.h"

namespace unroll {

std::string lowered(std::string_view cell) {
  std::string small(trimmed(cell));
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

bool is_csv_name(std::string_view file) {
  if (file.ends_with(".gz")) file.remove_suffix(3);
  return file.ends_with(".csv") || file.ends_with(".CSV");
}

bool CsvFormat::is_missing(std::string_view cell) const {
  cell = trimmed(cell);
  if (cell.empty()) return true;
  const auto begins_number = [](std::string_view text) {
    return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-' || text[0] == '+' ||
                             text[0] == '.');
  };
  const bool has_numbers = std::any_of(missing.begin(), missing.end(), begins_number);
  const bool may_be_nan = cell.find_first_of("nN") != std::string_view::npos;
  if (begins_number(cell) && !has_numbers && !may_be_nan) return false;  // most cells
  const auto is_word = [&](const std::string& word) {
    return std::equal(cell.begin(), cell.end(), word.begin(), word.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  if (std::any_of(missing.begin(), missing.end(), is_word)) return true;
  const std::optional<double> number = may_be_nan || has_numbers ? number_in(cell) : std::nullopt;
  if (!number) return false;
  return std::isnan(*number) || std::any_of(missing.begin(), missing.end(),
                                            [&](const std::string& word) { return number_in(word) == number; });
}

}  // namespace unroll
