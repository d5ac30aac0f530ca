// SPDX-License-Identifier: Apache-2.0
// Words for missing values.
#include <algorithm>
#include <cctype>

#include "frontends/data/table/csv.h"

namespace unroll {

bool is_missing(std::string_view cell) {
  cell = trimmed(cell);
  constexpr std::string_view k_words[] = {"", "nan", "na", "n/a", "null", "?"};
  return std::any_of(std::begin(k_words), std::end(k_words), [&](std::string_view word) {
    return std::equal(cell.begin(), cell.end(), word.begin(), word.end(),
                      [](unsigned char a, char b) { return std::tolower(a) == b; });
  });
}

}  // namespace unroll
