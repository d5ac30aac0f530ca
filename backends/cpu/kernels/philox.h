// SPDX-License-Identifier: Apache-2.0
// Computes many Philox blocks at once; core/support/philox.h defines them.
#pragma once

#include <cstdint>

namespace unroll::cpu {

// out[e] = the uniform number of element 4 * block + e of the draw, for e < n. Key = seed low, seed high, update.
void philox_uniforms(const std::uint32_t* key, std::uint32_t rng_stream, std::uint64_t block, std::int64_t n,
                     float* out);

}  // namespace unroll::cpu
