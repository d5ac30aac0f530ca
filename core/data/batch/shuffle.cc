// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch/shuffle.h"

#include <numeric>
#include <utility>

#include "core/support/philox.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// "shuf": separates these draws from a graph's (the rng_stream is counter word 2 there) and from initial values.
constexpr std::uint32_t k_shuffle_domain = 0x73687566u;

PhiloxBlock draw(std::uint32_t block, std::uint64_t seed, std::int64_t epoch) {
  return philox({block, static_cast<std::uint32_t>(epoch >> 32), k_shuffle_domain, static_cast<std::uint32_t>(epoch)},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}
// Returns a number below n by multiply and shift; the bias is at most n / 2^32.
std::int64_t below(std::int64_t n, std::uint32_t word) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(n) * word >> 32);
}

}  // namespace

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  if (n < 0 || n >= std::int64_t{0xFFFFFFFF})
    throw Error(ErrorKind::usage, "permutation", "n must be below 2^32 - 1; got " + std::to_string(n));
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  PhiloxBlock words{};
  for (std::int64_t i = n - 1; i > 0; --i) {  // Fisher-Yates
    const auto k = static_cast<std::uint32_t>(n - 1 - i);
    if ((k & 3) == 0) words = draw(k >> 2, seed, epoch);
    std::swap(order[i], order[below(i + 1, words[k & 3])]);
  }
  return order;
}

const std::vector<std::int64_t>& Shuffle::order(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  if (seed != seed_ || epoch != epoch_ || std::ssize(order_) != n) {
    order_ = permutation(n, seed, epoch);
    seed_ = seed;
    epoch_ = epoch;
  }
  return order_;
}

}  // namespace unroll
