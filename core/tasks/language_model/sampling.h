// SPDX-License-Identifier: Apache-2.0
// Which token comes next, given how likely each one is.
#pragma once

#include <cstdint>
#include <span>

namespace unroll {

struct Sampling {
  double temperature = 1;  // 0: always the likeliest
  std::int64_t top_k = 0;  // only the so many likeliest; 0: all
  double top_p = 1;        // of those the fewest likeliest whose probabilities sum to it
};

// A number with probability proportional to e^(logit / temperature) among those that are left; `uniform` in [0,1)
// decides. `never` is not chosen; -1: there is none. Throws Error(numeric) when the largest logit is not finite.
std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double uniform, std::int32_t never = -1);

}  // namespace unroll
