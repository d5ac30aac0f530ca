// SPDX-License-Identifier: Apache-2.0
// Counts in sentences: "1 row", "3 rows are".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace unroll {

// The plural of a lower-case noun: rows, classes, batches, entries, series.
inline std::string plural_of(std::string_view noun) {
  constexpr std::string_view k_vowels = "aeiou";
  std::string text(noun);
  if (text.ends_with("series")) return text;
  if (text.ends_with("s") || text.ends_with("ch") || text.ends_with("x")) return text + "es";
  const bool has_y = text.size() > 1 && text.back() == 'y' && k_vowels.find(text[text.size() - 2]) == k_vowels.npos;
  if (has_y) text.pop_back();
  return text + (has_y ? "ies" : "s");
}

template <std::integral N>
std::string counted(N n, std::string_view noun) {
  return std::to_string(n) + " " + (n == 1 ? std::string(noun) : plural_of(noun));
}

template <std::integral N>
std::string counted_are(N n, std::string_view noun) {
  return counted(n, noun) + (n == 1 ? " is" : " are");
}

}  // namespace unroll
