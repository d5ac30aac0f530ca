// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known name with the smallest edit distance.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

// Counts the insertions, deletions, replacements and swaps of neighbors that turn a into b (optimal string alignment).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), above(row), above_that(row);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    above_that.swap(above);
    above.swap(row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({above[j + 1] + 1, row[j] + 1, above[j] + (a[i] != b[j])});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], above_that[j - 1] + 1);
    }
  }
  return row[b.size()];
}

// Returns the nearest name; empty if every distance exceeds half of the name's length.
inline std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = name.size() / 2 + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < least) best = candidate, least = distance;
  }
  return best;
}

// Returns advice for a wrong name: "Did you mean 'gru'? Known: rnn, gru, lstm".
inline std::string known_names(std::string_view wrong, std::span<const std::string_view> known) {
  std::string text;
  if (const std::string_view near = nearest_name(wrong, known); !near.empty())
    text.append("Did you mean '").append(near).append("'? ");
  text += "Known: ";
  for (std::size_t i = 0; i < known.size(); ++i) text.append(i == 0 ? "" : ", ").append(known[i]);
  return text;
}

}  // namespace unroll
