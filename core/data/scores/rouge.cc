// SPDX-License-Identifier: Apache-2.0
#include "core/data/scores/rouge.h"

#include <algorithm>

#include "core/data/file/lines.h"
#include "core/data/scores/porter.h"
#include "core/data/scores/words.h"

namespace unroll {

namespace {

// Returns the runs of a-z and 0-9 in lower case. Only two other characters have one of these as their lower case.
Words plain_words(const std::string& text, bool stem) {
  constexpr std::string_view k_dotted_i = "\xC4\xB0", k_kelvin = "\xE2\x84\xAA";  // U+0130, U+212A
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const std::string_view rest = std::string_view(text).substr(i);
    if (rest.starts_with(k_dotted_i)) plain += 'i';
    else if (rest.starts_with(k_kelvin)) plain += 'k', i += k_kelvin.size() - 1;
    else plain += (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9') ? small : ' ';
  }
  Words words = words_of(plain);
  for (std::string& word : words)
    if (stem && word.size() > 3) word = porter_stem(word);
  return words;
}

RougeScore score_of(std::int64_t both, std::int64_t text, std::int64_t reference) {
  RougeScore s;
  if (both == 0) return s;
  s.precision = static_cast<double>(both) / static_cast<double>(text);
  s.recall = static_cast<double>(both) / static_cast<double>(reference);
  s.f = 2 * s.precision * s.recall / (s.precision + s.recall);
  return s;
}

RougeScore of_n_grams(const Words& text, const Words& reference, std::size_t n) {
  return score_of(n_in_both(n_grams(text, n), n_grams(reference, n)), n_of_size(text, n), n_of_size(reference, n));
}

std::int64_t longest_common_subsequence(const Words& a, const Words& b) {
  std::vector<std::int64_t> row(b.size() + 1);
  for (const std::string& word : a) {
    std::int64_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::array<RougeScore, 3> rouge_scores(const std::string& text, const std::string& reference, bool stem) {
  const Words a = plain_words(text, stem), b = plain_words(reference, stem);
  return {of_n_grams(a, b, 1), of_n_grams(a, b, 2),
          score_of(longest_common_subsequence(a, b), n_of_size(a, 1), n_of_size(b, 1))};
}

}  // namespace unroll
