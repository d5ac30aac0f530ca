// SPDX-License-Identifier: Apache-2.0
// Beam search over any model that gives the next token's log probabilities.
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
  std::int64_t no_repeat_ngram = 0;  // no n-gram of this size occurs twice; 0: they may
  std::int64_t min_length = 0;       // tokens without the end. A text that may not go on ends earlier
  std::int64_t max_length = 100;     // tokens without the end; a text that reaches it is cut
  std::int32_t end = 0;              // the token that ends a text, and that begins one
  std::int32_t never = -1;           // a token that is not written; -1: none
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  // without the end
  double log_probability = 0;        // of the tokens, and of the end where it was reached
  double score = 0;                  // log_probability with the length penalty, plus `bonus`
  double bonus = 0;                  // what the caller of advance() adds to the score
};

// What a lane's next token may be.
struct NextTokens {
  std::span<const float> logits;  // [V]: the log probability of token v is logits[v] + shift
  double shift = 0;
  // Further tokens, and those of the V whose logit is -infinity because their log probability stands here.
  struct Other {
    std::int32_t token;
    double log_probability;
  };
  std::span<const Other> others = {};
};

// One search, advanced step by step, so that searches for many sources share the model's runs.
class BeamSearch {
 public:
  // Throws Error(usage) on options out of range.
  explicit BeamSearch(const BeamOptions& options);

  // After max_length tokens, or once `beam` hypotheses have ended and no live one scores better than the best of them.
  bool done() const;
  // The last token of each live lane, and the lane of the step before that it continues. At first one lane, with the
  // end token.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::size_t> parents() const { return parents_; }
  // What may follow in each lane. `bonuses` [lanes] are added to the scores of the hypotheses that end in this step, or
  // are cut in it; empty: zeros. Throws Error(numeric) when no log probability is a number.
  void advance(std::span<const NextTokens> lanes, std::span<const double> bonuses = {});
  // The best `beam` hypotheses that ended, the best first; where none has ended, those that were cut. Of equal scores
  // the one that ended earlier comes first, then the earlier lane.
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

// Gives log probabilities [lanes, V] after `tokens`; lane i continues lane parents[i] of the call before.
using BeamStep =
    std::function<std::span<const float>(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents)>;
Hypothesis beam_search(const BeamStep& step, const BeamOptions& options);

}  // namespace unroll
