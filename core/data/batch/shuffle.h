// SPDX-License-Identifier: Apache-2.0
// Random orders as pure functions of (seed, epoch). They need no saved state.
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

// Returns 0 .. n-1 in random order; n < 2^32.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

// Caches the last permutation, because batches of an epoch are requested one after another.
class Shuffle {
 public:
  const std::vector<std::int64_t>& order(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

 private:
  std::vector<std::int64_t> order_;
  std::uint64_t seed_ = 0;
  std::int64_t epoch_ = -1;
};

}  // namespace unroll
