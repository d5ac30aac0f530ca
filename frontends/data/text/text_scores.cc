// SPDX-License-Identifier: Apache-2.0
#include "unroll/text_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "frontends/data/file/lines.h"
#include "unroll/error.h"

namespace unroll {

namespace {

using Words = std::vector<std::string>;
using Counts = std::map<Words, std::int64_t>;

Counts n_grams(const Words& words, std::size_t n) {
  Counts counts;
  for (std::size_t i = 0; i + n <= words.size(); ++i)
    ++counts[Words(words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i + n))];
  return counts;
}
std::int64_t n_in_both(const Counts& a, const Counts& b) {
  std::int64_t n = 0;
  for (const auto& [gram, count] : a)
    if (const auto at = b.find(gram); at != b.end()) n += std::min(count, at->second);
  return n;
}
std::int64_t n_words(const Words& words) { return static_cast<std::int64_t>(words.size()); }

// --- BLEU

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
// The class [\{-\~\[-\` -\&\(-\+\:-\@\/] of mteval-v13a.
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Two characters at a time, as a regular expression replaces its matches from the left.
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

// The tokenizer "13a": symbols stand alone, stops and commas unless between digits, dashes after digits.
Words tokens_13a(std::string text) {
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
  return words_of(spaced);
}

struct BleuCounts {
  static constexpr std::size_t k_order = 4;
  std::array<std::int64_t, k_order> correct{}, total{};
  std::int64_t length = 0, reference_length = 0;

  void add(const Words& text, const Words& reference) {
    length += n_words(text);
    reference_length += n_words(reference);
    for (std::size_t n = 1; n <= k_order; ++n) {
      correct[n - 1] += n_in_both(n_grams(text, n), n_grams(reference, n));
      total[n - 1] += std::max<std::int64_t>(n_words(text) - static_cast<std::int64_t>(n) + 1, 0);
    }
  }
  // A precision without a hit counts as half a hit, the next one as a quarter of one, and so on.
  double score() const {
    if (correct[0] == 0) return 0;
    double logs = 0, smooth = 1;
    for (std::size_t n = 0; n < k_order; ++n) {
      if (total[n] == 0) return 0;
      if (correct[n] == 0) smooth *= 2;
      const double hits = correct[n] == 0 ? 1 / smooth : static_cast<double>(correct[n]);
      logs += std::log(100 * hits / static_cast<double>(total[n]));
    }
    const double shortness =
        length < reference_length ? 1 - static_cast<double>(reference_length) / static_cast<double>(length) : 0;
    return std::exp(shortness + logs / k_order);
  }
};

// --- ROUGE

// Runs of a-z and 0-9 in small letters.
Words plain_words(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    plain += (small >= 'a' && small <= 'z') || is_digit(small) ? small : ' ';
  }
  return words_of(plain);
}

double f_measure(std::int64_t both, std::int64_t text, std::int64_t reference) {
  if (both == 0) return 0;
  const double precision = static_cast<double>(both) / static_cast<double>(text),
               recall = static_cast<double>(both) / static_cast<double>(reference);
  return 2 * precision * recall / (precision + recall);
}

double rouge_n(const Words& text, const Words& reference, std::size_t n) {
  const auto grams = [&](const Words& w) {
    return std::max<std::int64_t>(n_words(w) - static_cast<std::int64_t>(n) + 1, 0);
  };
  return f_measure(n_in_both(n_grams(text, n), n_grams(reference, n)), grams(text), grams(reference));
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

TextScores text_scores(std::span<const std::string> texts, std::span<const std::string> references) {
  if (texts.size() != references.size())
    throw Error(ErrorKind::usage, "text_scores",
                "there must be as many references as texts; got " + std::to_string(references.size()) + " and " +
                    std::to_string(texts.size()));
  TextScores s;
  if (texts.empty()) return s;
  BleuCounts bleu;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    s.exact_match += texts[i] == references[i];
    bleu.add(tokens_13a(texts[i]), tokens_13a(references[i]));
    const Words text = plain_words(texts[i]), reference = plain_words(references[i]);
    s.rouge1 += rouge_n(text, reference, 1);
    s.rouge2 += rouge_n(text, reference, 2);
    s.rougeL += f_measure(longest_common_subsequence(text, reference), n_words(text), n_words(reference));
  }
  s.bleu = bleu.score();
  for (double* mean : {&s.exact_match, &s.rouge1, &s.rouge2, &s.rougeL}) *mean /= static_cast<double>(texts.size());
  return s;
}

}  // namespace unroll
