// SPDX-License-Identifier: Apache-2.0
// Scores of texts that a model generates, compared with targets and baselines.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "frontends/cli/predict/scores.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/data/text_scores.h"
#include "unroll/tasks/predict.h"
#include "unroll/tasks/tasks.h"

namespace unroll::cli {

// Baselines that generate a text for each text: text_baselines.cc.
using Guess = std::function<std::string(const std::string& source)>;
std::map<std::string, Guess> translation_baselines(const PairTask& data);  // source_as_it_is, word_by_word
std::map<std::string, Guess> summary_baselines(const PairTask& data);      // first_sentence, first_words
// Returns the share of word trigrams, ignoring case, that occur earlier in the same text; 0 without a trigram.
double repeated_trigrams(std::span<const std::string> texts);

// The scores of a kind of task, from its row.
struct TextScoring {
  TextScoreOptions options;
  Metrics (*metrics)(const TextScores& scores);
  std::map<std::string, Guess> (*baselines)(const PairTask& data);
  bool counts_trigrams = false;  // adds repeated_trigrams
};

struct PairScores {
  Metrics model;
  std::map<std::string, Metrics> baselines;
  std::map<std::string, std::pair<double, double>> intervals;  // of the model: 95 %, bootstrap over pairs
  std::int64_t n = 0;  // pairs: all of the split, at most `most`
  bool all = true;
};
// Scores of the first `most` pairs of a split.
PairScores pair_scores(const PairTask& task, const RunFolder& run, Backend& backend, Split split,
                       const DecodeOptions& decode, std::int64_t most = std::numeric_limits<std::int64_t>::max());

}  // namespace unroll::cli
