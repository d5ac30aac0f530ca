// SPDX-License-Identifier: Apache-2.0
// Every score is a function of sums over pairs, so a resampled corpus costs only additions.
#include "unroll/data/text_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "core/data/scores/bleu.h"
#include "core/data/scores/rouge.h"
#include "core/support/text/exact_text.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// One number per field of TextScores; the counts of a pair replace BLEU and chrF.
constexpr std::size_t k_rouge_numbers = 9, k_bleu_at = 1 + k_rouge_numbers, k_chrf_at = k_bleu_at + k_bleu_counts,
                      k_sums = k_chrf_at + k_chrf_counts;
using Sums = std::array<double, k_sums>;

Sums sums_of(const std::string& text, const std::string& reference, bool stem) {
  Sums sums{text == reference ? 1.0 : 0.0};
  auto at = sums.begin() + 1;
  for (const RougeScore& r : rouge_scores(text, reference, stem))
    for (const double value : {r.precision, r.recall, r.f}) *at++ = value;
  at = std::ranges::copy(bleu_counts(text, reference), at).out;
  std::ranges::copy(chrf_counts(text, reference), at);
  return sums;
}

void add(Sums& to, const Sums& sums) {
  for (std::size_t i = 0; i < k_sums; ++i) to[i] += sums[i];
}

TextScores scores_of(const Sums& sums, std::size_t n) {
  const std::span<const double> all(sums);
  TextScores s;
  s.bleu = bleu_of(all.subspan(k_bleu_at, k_bleu_counts));
  s.chrf = chrf_of(all.subspan(k_chrf_at, k_chrf_counts));
  const auto mean = [&](std::size_t i) { return sums[i] / static_cast<double>(n); };
  s.exact_match = mean(0);
  std::size_t i = 1;
  for (RougeScore* r : {&s.rouge1, &s.rouge2, &s.rougeL})
    for (double* value : {&r->precision, &r->recall, &r->f}) *value = mean(i++);
  return s;
}

std::vector<Sums> sums_of_all(std::span<const std::string> texts, std::span<const std::string> references, bool stem) {
  if (texts.size() != references.size())
    throw Error(ErrorKind::usage, "text_scores",
                "there must be as many references as texts; got " + std::to_string(references.size()) + " and " +
                    std::to_string(texts.size()));
  std::vector<Sums> sums;
  sums.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) sums.push_back(sums_of(texts[i], references[i], stem));
  return sums;
}

std::vector<double*> numbers_of(TextScores& s) {
  std::vector<double*> numbers{&s.exact_match, &s.bleu, &s.chrf};
  for (RougeScore* r : {&s.rouge1, &s.rouge2, &s.rougeL})
    for (double* value : {&r->precision, &r->recall, &r->f}) numbers.push_back(value);
  return numbers;
}

// Interpolates between the two nearest of the sorted values.
double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

TextScores text_scores(std::span<const std::string> texts, std::span<const std::string> references,
                       const TextScoreOptions& options) {
  Sums total{};
  for (const Sums& sums : sums_of_all(texts, references, options.stem)) add(total, sums);
  return texts.empty() ? TextScores() : scores_of(total, texts.size());
}

TextScoreIntervals text_score_intervals(std::span<const std::string> texts, std::span<const std::string> references,
                                        const TextScoreOptions& options) {
  if (options.resamples < 1 || !(options.confidence > 0 && options.confidence < 1))
    throw Error(ErrorKind::usage, "text_scores",
                "resamples must be at least 1 and confidence between 0 and 1; got " +
                    std::to_string(options.resamples) + " and " + exact_text(options.confidence));
  const std::vector<Sums> sums = sums_of_all(texts, references, options.stem);
  TextScoreIntervals result;
  if (sums.empty()) return result;
  std::mt19937_64 random(options.seed);
  std::vector<std::vector<double>> drawn;  // by number
  for (std::int64_t i = 0; i < options.resamples; ++i) {
    Sums total{};
    for (std::size_t k = 0; k < sums.size(); ++k) add(total, sums[random() % sums.size()]);
    TextScores s = scores_of(total, sums.size());
    const std::vector<double*> numbers = numbers_of(s);
    drawn.resize(numbers.size());
    for (std::size_t j = 0; j < numbers.size(); ++j) drawn[j].push_back(*numbers[j]);
  }
  const std::vector<double*> low = numbers_of(result.low), high = numbers_of(result.high);
  for (std::size_t j = 0; j < drawn.size(); ++j) {
    std::sort(drawn[j].begin(), drawn[j].end());
    *low[j] = percentile(drawn[j], (1 - options.confidence) / 2);
    *high[j] = percentile(drawn[j], (1 + options.confidence) / 2);
  }
  return result;
}

}  // namespace unroll
