// SPDX-License-Identifier: Apache-2.0
// Scores of texts against references, with the numbers of the usual Python packages.
#pragma once

#include <span>
#include <string>

#include "unroll/export.h"

namespace unroll {

struct TextScores {
  double exact_match = 0;  // share of texts that are their reference
  // Of the whole set, 0 to 100: n-grams up to 4, brevity penalty, tokens "13a", exponential smoothing (Papineni et al.
  // 2002; sacrebleu.corpus_bleu as it is called without options).
  double bleu = 0;
  // Means over the texts of the F-measure of unigrams, bigrams and the longest common subsequence, 0 to 1 (Lin 2004;
  // rouge_score.RougeScorer without stemming).
  double rouge1 = 0, rouge2 = 0, rougeL = 0;
};

// Throws Error(usage) when there are not as many references as texts.
UNROLL_API TextScores text_scores(std::span<const std::string> texts, std::span<const std::string> references);

}  // namespace unroll
