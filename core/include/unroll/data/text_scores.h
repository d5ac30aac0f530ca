// SPDX-License-Identifier: Apache-2.0
// Scores of generated texts against references. The values match the Python packages named below.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "unroll/support/export.h"

namespace unroll {

struct RougeScore {
  double precision = 0, recall = 0, f = 0;  // 0 to 1; means over the texts
};

struct TextScores {
  double exact_match = 0;  // share of texts equal to their references
  // Corpus BLEU, 0 to 100: n-grams up to 4, brevity penalty, tokenizer "13a", exponential smoothing (Papineni et al.
  // 2002; the defaults of sacrebleu.corpus_bleu).
  double bleu = 0;
  // Corpus chrF2, 0 to 100: n-grams of up to 6 characters (Popovic 2015; the defaults of sacrebleu.corpus_chrf).
  double chrf = 0;
  // Unigrams, bigrams and the longest common subsequence (Lin 2004; rouge_score.RougeScorer).
  RougeScore rouge1, rouge2, rougeL;
};

struct TextScoreOptions {
  bool stem = false;  // ROUGE compares stems of words (Porter 1980, as RougeScorer with use_stemmer)
  // Bootstrap resamples for confidence intervals (Efron 1979). Each draws as many pairs as there are, with replacement.
  std::int64_t resamples = 1000;
  double confidence = 0.95;
  std::uint64_t seed = 0;
};

// Throws Error(usage) when the numbers of texts and references differ. Invalid UTF-8 bytes count as U+FFFD.
UNROLL_API TextScores text_scores(std::span<const std::string> texts, std::span<const std::string> references,
                                  const TextScoreOptions& options = {});

// Confidence intervals of each score: percentiles over resampled pairs.
struct TextScoreIntervals {
  TextScores low, high;
};
UNROLL_API TextScoreIntervals text_score_intervals(std::span<const std::string> texts,
                                                   std::span<const std::string> references,
                                                   const TextScoreOptions& options = {});

}  // namespace unroll
