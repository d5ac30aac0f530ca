// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/philox.h"

#include "backends/cpu/kernels/targets.h"
#include "core/support/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/philox.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::ScalableTag<std::uint32_t>;
using V32 = hn::Vec<D32>;
using Index = std::int64_t;

#if HWY_TARGET != HWY_SCALAR
struct Product {
  V32 high, low;
};
// 32 x 32 -> 64 bits in each lane: even lanes, then odd lanes moved to even positions.
HWY_INLINE Product multiply(V32 a, V32 b) {
  const D32 d;
  const hn::RepartitionToWide<D32> d64;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), b);
  const auto low_half = hn::Set(d64, 0xFFFFFFFFu);
  return {hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::AndNot(low_half, odd))),
          hn::BitCast(d, hn::Or(hn::And(even, low_half), hn::ShiftLeft<32>(odd)))};
}

// One block in each lane; consecutive counters.
HWY_INLINE void philox_blocks(const std::uint32_t* key, std::uint32_t rng_stream, std::uint64_t block, float* out) {
  const D32 d;
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<D32> di;
  constexpr Index k_lanes = static_cast<Index>(hn::MaxLanes(D32()));
  HWY_ALIGN std::uint32_t low[k_lanes], high[k_lanes];
  for (Index i = 0; i < k_lanes; ++i) {
    low[i] = static_cast<std::uint32_t>(block + static_cast<std::uint64_t>(i));
    high[i] = static_cast<std::uint32_t>((block + static_cast<std::uint64_t>(i)) >> 32);
  }
  V32 c0 = hn::Load(d, low), c1 = hn::Load(d, high), c2 = hn::Set(d, rng_stream), c3 = hn::Set(d, key[2]);
  const V32 m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
  std::uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(c0, m0), p1 = multiply(c2, m1);
    c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(d, k0));
    c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(d, k1));
    c1 = p1.low;
    c3 = p0.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const auto uniform = [&](V32 word) HWY_ATTR {
    return hn::Mul(hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<8>(word))), hn::Set(df, 0x1p-24f));
  };
  hn::StoreInterleaved4(uniform(c0), uniform(c1), uniform(c2), uniform(c3), df, out);
}
#endif

void uniforms(const std::uint32_t* key, std::uint32_t rng_stream, std::uint64_t block, Index n, float* out) {
#if HWY_TARGET == HWY_SCALAR
  for (Index e = 0; e < n; ++e) {
    const std::uint64_t b = block + static_cast<std::uint64_t>(e / 4);
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), rng_stream, key[2]},
               {key[0], key[1]});
    out[e] = philox_uniform(words[e % 4]);
  }
#else
  constexpr Index k_lanes = static_cast<Index>(hn::MaxLanes(D32()));
  Index e = 0;
  for (; e + 4 * k_lanes <= n; e += 4 * k_lanes, block += k_lanes) philox_blocks(key, rng_stream, block, out + e);
  if (e == n) return;
  float end[4 * k_lanes];
  philox_blocks(key, rng_stream, block, end);
  std::copy_n(end, n - e, out + e);
#endif
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unroll::cpu {

HWY_EXPORT(uniforms);

void philox_uniforms(const std::uint32_t* key, std::uint32_t rng_stream, std::uint64_t block, std::int64_t n,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(uniforms)(key, rng_stream, block, n, out);
}

}  // namespace unroll::cpu
#endif
