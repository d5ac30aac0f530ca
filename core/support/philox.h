// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al. 2011): random words as a pure function of key and counter.
#pragma once

#include <array>
#include <cstdint>

namespace unroll {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Key = (seed low, seed high). Element e of draw `rng_stream` in `update` is lane e & 3 of the block whose counter is
// (e >> 2 low, e >> 2 high, rng_stream, update).
inline PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Returns a number in [0,1), exact in f32.
inline float philox_uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace unroll
