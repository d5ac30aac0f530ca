// SPDX-License-Identifier: Apache-2.0
// Beam search over any model with log probabilities of the next token.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace unroll {

struct BeamOptions {
  std::int64_t beam = 1;             // hypotheses kept; 1 is greedy decoding
  double length_penalty = 0;         // alpha: a score is log p / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14)
  std::int64_t no_repeat_ngram = 0;  // no n-gram of this size repeats; 0: no limit
  std::int64_t min_length = 0;       // tokens without the end. Texts without any allowed token end earlier
  std::int64_t max_length = 100;     // tokens without the end; a text of this length is cut
  std::int32_t end = 0;              // the token that ends a text, and also begins it
  std::int32_t never = -1;           // a token that is never written; -1: none
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  // without the end
  double log_probability = 0;        // of the tokens, and of the end token if it was reached
  double score = 0;                  // log_probability with the length penalty, plus `bonus`
  double bonus = 0;                  // added to the score by the caller of advance()
};

// The candidates for a lane's next token.
struct NextTokens {
  std::span<const float> logits;  // [V]: the log probability of token v is logits[v] + shift
  double shift = 0;
  // Further tokens, with their log probabilities. Tokens below V listed here have the logit -infinity.
  struct Other {
    std::int32_t token;
    double log_probability;
  };
  std::span<const Other> others = {};
};

// One search, advanced step by step, so that searches for many sources can share model runs.
class BeamSearch {
 public:
  // Throws Error(usage) on options out of range.
  explicit BeamSearch(const BeamOptions& options);

  // True after max_length tokens, or when `beam` hypotheses have ended and no live one can beat the best of them.
  bool done() const;
  // The last token of each live lane, and its parent lane in the previous step. The search begins with one lane and the
  // end token.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::size_t> parents() const { return parents_; }
  // Advances by one step with the candidates of each lane. `bonuses` [lanes] are added to the scores of hypotheses that
  // end or are cut in this step; empty: zeros. Throws Error(numeric) when no log probability is a number.
  void advance(std::span<const NextTokens> lanes, std::span<const double> bonuses = {});
  // Returns the best `beam` ended hypotheses, best first; if none has ended, the cut ones. Among equal scores the
  // earlier end comes first, then the earlier lane.
  std::vector<Hypothesis> ranked() const;
  Hypothesis best() const { return ranked().front(); }

 private:
  void finish(Hypothesis hypothesis, std::size_t length);

  BeamOptions options_;
  std::int64_t length_ = 0;
  double best_finished_ = -HUGE_VAL;
  std::vector<Hypothesis> live_, finished_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::size_t> parents_;
};

// Returns log probabilities [lanes, V] after `tokens`; lane i continues lane parents[i] of the previous call.
using BeamStep =
    std::function<std::span<const float>(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents)>;
Hypothesis beam_search(const BeamStep& step, const BeamOptions& options);

}  // namespace unroll
