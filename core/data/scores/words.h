// SPDX-License-Identifier: Apache-2.0
// N-grams of words or characters, and the number of common n-grams of two texts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

using Words = std::vector<std::string>;

// Splits a text at white space, as defined by Unicode.
Words unicode_words(std::string_view text);
// Returns the text without white space.
std::u32string without_blanks(std::string_view text);

template <class Sequence>
using Counts = std::map<Sequence, std::int64_t>;

template <class Sequence>
Counts<Sequence> n_grams(const Sequence& of, std::size_t n) {
  Counts<Sequence> counts;
  for (std::size_t i = 0; i + n <= of.size(); ++i)
    ++counts[Sequence(of.begin() + static_cast<std::ptrdiff_t>(i), of.begin() + static_cast<std::ptrdiff_t>(i + n))];
  return counts;
}
template <class Sequence>
std::int64_t n_of_size(const Sequence& of, std::size_t n) {
  return std::max<std::int64_t>(std::ssize(of) - static_cast<std::int64_t>(n) + 1, 0);
}
// Counts common n-grams; each counts as often as in the text with fewer occurrences.
template <class Sequence>
std::int64_t n_in_both(const Counts<Sequence>& a, const Counts<Sequence>& b) {
  std::int64_t n = 0;
  for (const auto& [gram, count] : a)
    if (const auto at = b.find(gram); at != b.end()) n += std::min(count, at->second);
  return n;
}

}  // namespace unroll
