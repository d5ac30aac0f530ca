// SPDX-License-Identifier: Apache-2.0
#include "core/data/scores/bleu.h"

#include <cmath>
#include <functional>

#include "core/data/scores/words.h"
#include "core/support/text/digits.h"

namespace unroll {

namespace {

bool is_stop(char c) { return c == '.' || c == ','; }
// True for the class [\{-\~\[-\` -\&\(-\+\:-\@\/] of mteval-v13a.
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Replaces pairs of characters from left to right, as a regular expression does.
std::string replace_pairs(const std::string& text, const std::function<bool(char, char)>& matches, const char* before,
                          const char* between, const char* after) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      result += before + std::string(1, text[i]) + between + text[i + 1] + after;
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Tokenizer "13a": separates symbols, stops and commas except between digits, and dashes after digits.
Words tokens_13a(std::string text) {
  text.erase(text.find_last_not_of(" \t\n\v\f\r") + 1);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  constexpr std::pair<const char*, const char*> k_entities[] = {
      {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [entity, character] : k_entities) replace_all(text, entity, character);
  std::string spaced;
  for (const char c : " " + text + " ") spaced += is_symbol(c) ? std::string{' ', c, ' '} : std::string(1, c);
  spaced = replace_pairs(
      spaced, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ", " ");
  spaced = replace_pairs(
      spaced, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", " ", "");
  spaced = replace_pairs(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ", " ");
  return unicode_words(spaced);
}

}  // namespace

std::array<double, k_bleu_counts> bleu_counts(const std::string& text, const std::string& reference) {
  const Words a = tokens_13a(text), b = tokens_13a(reference);
  std::array<double, k_bleu_counts> counts{};
  for (std::size_t n = 1; n <= k_bleu_order; ++n) {
    counts[n - 1] = static_cast<double>(n_in_both(n_grams(a, n), n_grams(b, n)));
    counts[k_bleu_order + n - 1] = static_cast<double>(n_of_size(a, n));
  }
  counts[2 * k_bleu_order] = static_cast<double>(a.size());
  counts[2 * k_bleu_order + 1] = static_cast<double>(b.size());
  return counts;
}

// A precision without a match counts as half a match, the next one as a quarter, and so on (exponential smoothing).
double bleu_of(std::span<const double> counts) {
  const double length = counts[2 * k_bleu_order], reference_length = counts[2 * k_bleu_order + 1];
  if (counts[0] == 0) return 0;
  double logs = 0, smooth = 1;
  for (std::size_t n = 0; n < k_bleu_order; ++n) {
    const double total = counts[k_bleu_order + n];
    if (total == 0) return 0;
    if (counts[n] == 0) smooth *= 2;
    logs += std::log(100 * (counts[n] == 0 ? 1 / smooth : counts[n]) / total);
  }
  const double shortness = length < reference_length ? 1 - reference_length / length : 0;
  return std::exp(shortness + logs / k_bleu_order);
}

std::array<double, k_chrf_counts> chrf_counts(const std::string& text, const std::string& reference) {
  const std::u32string a = without_blanks(text), b = without_blanks(reference);
  std::array<double, k_chrf_counts> counts{};
  for (std::size_t n = 1; n <= k_chrf_order; ++n) {
    double* const of = counts.data() + 3 * (n - 1);
    // An order without n-grams in the reference does not count.
    of[0] = n_of_size(b, n) > 0 ? static_cast<double>(n_of_size(a, n)) : 0;
    of[1] = static_cast<double>(n_of_size(b, n));
    of[2] = static_cast<double>(n_in_both(n_grams(a, n), n_grams(b, n)));
  }
  return counts;
}

double chrf_of(std::span<const double> counts) {
  constexpr double k_beta_2 = 4;  // beta^2
  double precision = 0, recall = 0, orders = 0;
  for (std::size_t n = 0; n < k_chrf_order; ++n) {
    const double in_text = counts[3 * n], in_reference = counts[3 * n + 1], in_both = counts[3 * n + 2];
    if (in_text == 0 || in_reference == 0) continue;
    precision += in_both / in_text;
    recall += in_both / in_reference;
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * (1 + k_beta_2) * precision * recall / (k_beta_2 * precision + recall);
}

}  // namespace unroll
