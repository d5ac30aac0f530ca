// SPDX-License-Identifier: Apache-2.0
// Words for missing values.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "frontends/data/table/csv.h"

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
