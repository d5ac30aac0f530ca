// SPDX-License-Identifier: Apache-2.0
// Beam search over any model that gives the next token's log probabilities.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace unroll {

struct BeamOptions {
  std::int64_t beam = 1;             // hypotheses kept; 1 is greedy decoding
  double length_penalty = 0;         // alpha: a score is log p / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14)
  std::int64_t no_repeat_ngram = 0;  // no n tokens in a row come twice; 0: they may
  std::int64_t max_length = 100;     // tokens without the end
  std::int32_t end = 0;              // the token that ends a text, and that begins one
};

// Gives log probabilities [lanes, V] after `tokens`, the last one of each lane; lane i goes on from lane parents[i] of
// the call before. In the first call there is one lane, with the end token.
using BeamStep =
    std::function<std::span<const float>(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents)>;

struct Hypothesis {
  std::vector<std::int32_t> tokens;  // without the end
  double score = 0;                  // with the length penalty
};
// The best of the first `beam` hypotheses that end. Of equal scores the earlier lane and the lower token come first.
// Throws Error(numeric) when no log probability is a number.
Hypothesis beam_search(const BeamStep& step, const BeamOptions& options);

}  // namespace unroll
