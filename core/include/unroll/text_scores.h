// SPDX-License-Identifier: Apache-2.0
// Scores of generated texts against references. The values match the Python packages named below.
#pragma once

#include <span>
#include <string>

#include "unroll/export.h"

namespace unroll {

struct TextScores {
  double exact_match = 0;  // share of texts equal to their reference
  // Corpus BLEU, 0 to 100: n-grams up to 4, brevity penalty, tokenizer "13a", exponential smoothing (Papineni et al.
  // 2002; the defaults of sacrebleu.corpus_bleu).
  double bleu = 0;
  // Mean F-measure of unigrams, bigrams and the longest common subsequence, 0 to 1 (Lin 2004; rouge_score.RougeScorer
  // without stemming).
  double rouge1 = 0, rouge2 = 0, rougeL = 0;
};

// Throws Error(usage) when the numbers of texts and references differ.
UNROLL_API TextScores text_scores(std::span<const std::string> texts, std::span<const std::string> references);

}  // namespace unroll
