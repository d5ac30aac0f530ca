// SPDX-License-Identifier: Apache-2.0
// Sampling of the next token from its logits.
#pragma once

#include <cstdint>
#include <span>

namespace unroll {

struct Sampling {
  double temperature = 1;  // 0: always the most likely token
  std::int64_t top_k = 0;  // sample from the k most likely tokens; 0: all
  double top_p = 1;        // then from the smallest set of these whose probabilities sum to it
};

// Samples a remaining token with probability proportional to e^(logit / temperature); `uniform` in [0,1) is the random
// number. `never` is excluded; -1: none. Throws Error(numeric) when the largest logit is not finite.
std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double uniform, std::int32_t never = -1);

}  // namespace unroll
