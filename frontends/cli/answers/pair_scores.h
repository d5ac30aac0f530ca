// SPDX-License-Identifier: Apache-2.0
// What a translate or summarize model writes by itself, scored against the targets, beside simple methods.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "frontends/cli/answers/scores.h"
#include "frontends/cli/run/run_folder.h"
#include "unroll/predict.h"
#include "unroll/tasks.h"

namespace unroll::cli {

struct PairScores {
  Metrics model;
  // translate: source_as_it_is, word_by_word; summarize: first_sentence, first_words
  std::map<std::string, Metrics> baselines;
  std::map<std::string, std::pair<double, double>> intervals;  // of the model, 95 %, by the bootstrap over pairs
  std::int64_t n = 0;  // pairs, all of the split unless there are more than `most`
  bool all = true;
};
// Scores of the first `most` pairs of a split: exact_match, rouge1, rouge2 and rougeL; translate: bleu and chrf, too;
// summarize: ROUGE of stems, and repeated_trigrams, the share of trigrams of words that their text has before.
PairScores pair_scores(const PairTask& task, const RunFolder& run, Backend& backend, Split split,
                       const DecodeOptions& decode, std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace unroll::cli
