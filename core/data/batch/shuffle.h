// SPDX-License-Identifier: Apache-2.0
// Random orders as pure functions of (seed, epoch): nothing to save, nothing to replay.
#pragma once

#include <cstdint>
#include <vector>

namespace unroll {

// 0 .. n-1 in random order; n < 2^32.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

// The last permutation asked for: batches of one epoch come one after the other.
class Shuffle {
 public:
  const std::vector<std::int64_t>& order(std::int64_t n, std::uint64_t seed, std::int64_t epoch);

 private:
  std::vector<std::int64_t> order_;
  std::uint64_t seed_ = 0;
  std::int64_t epoch_ = -1;
};

}  // namespace unroll
