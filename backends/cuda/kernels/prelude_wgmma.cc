// SPDX-License-Identifier: Apache-2.0
// Sums of products by the tensor cores of a warpgroup (sm_90a): wgmma with the weights in registers and the operand in
// an exchange buffer, whose pieces of 8 rows by 16 bytes are its core matrices. P and B as in prelude.cc and
// prelude_exchange.cc.
#include <string_view>

#include "backends/cuda/kernels/prelude.h"

namespace unroll::cuda {

namespace {

// PTX ISA, "wgmma.mma_async". The descriptor without swizzle, in units of 16 bytes: the address from bit 0, from bit 16
// the distance of core matrices along k, from bit 32 that along rows of the state. wgmma reads by another proxy, so
// stores of threads need a proxy fence before it. Results may be touched after the wait only.
constexpr std::string_view k_wgmma = R"CUDA(
#ifndef UNROLL_SHIM
__device__ inline unsigned long long unroll_describe(const char* at, int next_k, int next_rows) {
  const unsigned long long shared = (unsigned)__cvta_generic_to_shared(at) >> 4 & 0x3fffu;
  return shared | (unsigned long long)(next_k >> 4) << 16 | (unsigned long long)(next_rows >> 4) << 32;
}
__device__ inline void unroll_proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ inline void unroll_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void unroll_wgmma_end() {
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Zeros are in registers before the first instruction: else ptxas lets each instruction wait for the one before.
template <int N, int M>
__device__ inline void unroll_settle(float (&d)[N][M]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < M; ++j) asm volatile("" : "+f"(d[i][j])::"memory");
}
#define UNROLL_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define UNROLL_WGMMA(kind, n, count, sums, operands, ...)                                                      \
  __device__ inline void unroll_wgmma_##kind(float (&d)[count], const uint4& a, unsigned long long b) {        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #kind "." #kind " {" sums "}, " operands    \
                 ", 1, 1, 1, 0;"                                                                               \
                 : __VA_ARGS__ : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                              \
  }
#define UNROLL_WGMMA_OF(kind)                                                                                  \
  UNROLL_WGMMA(kind, 8, 4, "%0,%1,%2,%3", "{%4,%5,%6,%7}, %8", UNROLL_FOUR(d, 0))                              \
  UNROLL_WGMMA(kind, 16, 8, "%0,%1,%2,%3,%4,%5,%6,%7", "{%8,%9,%10,%11}, %12", UNROLL_FOUR(d, 0),              \
               UNROLL_FOUR(d, 4))                                                                              \
  UNROLL_WGMMA(kind, 24, 12, "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11", "{%12,%13,%14,%15}, %16",                \
               UNROLL_FOUR(d, 0), UNROLL_FOUR(d, 4), UNROLL_FOUR(d, 8))                                        \
  UNROLL_WGMMA(kind, 32, 16, "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15",                          \
               "{%16,%17,%18,%19}, %20", UNROLL_FOUR(d, 0), UNROLL_FOUR(d, 4), UNROLL_FOUR(d, 8),              \
               UNROLL_FOUR(d, 12))
UNROLL_WGMMA_OF(bf16)
UNROLL_WGMMA_OF(f16)
#endif
)CUDA";

// A warp holds 16 rows of 64 weights by 16 terms, as for mma.sync (PTX ISA, "wgmma m64nNk16", A): thread 4g + q has
// rows g and g + 8, and of each the terms 2q, 2q + 1, 2q + 8, 2q + 9. Two warpgroups share the terms.
constexpr std::string_view k_wgmma_sums = R"CUDA(
template <class P, class T>
__device__ inline void unroll_keep_wgmma(uint4 (&weights)[P::FRAGMENTS], const T* w, int first_unit) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int f = 0; f < P::FRAGMENTS; ++f) {
    const int k = warp / 4 * P::SLICE + f / P::TILES * 16 + lane % 4 * 2;
    const int column = f % P::TILES * 64 + warp % 4 * 16;
    const int gate = column / P::OWN, unit = first_unit + column % P::OWN + lane / 4;
    weights[f].x = unroll_weight_word<P>(w, gate, unit, k), weights[f].y = unroll_weight_word<P>(w, gate, unit + 8, k);
    weights[f].z = unroll_weight_word<P>(w, gate, unit, k + 8);
    weights[f].w = unroll_weight_word<P>(w, gate, unit + 8, k + 8);
  }
}
// For ROWS rows of the slot from `row` on, to float [SLICES][ROWS][PITCH]. Rows behind the last one have results that
// nobody reads.
template <class P, class B>
__device__ __forceinline__ void unroll_wgmma_sums(const char* slot, const uint4 (&weights)[P::FRAGMENTS], float* to,
                                                  int row) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, group = warp / 4;
  if (P::SLICES == 1 && group > 0) return;
  float sums[P::TILES][P::ROWS / 2] = {};
  unroll_proxy_fence();
  unroll_settle(sums);
  unroll_wgmma_begin();
#pragma unroll
  for (int s = 0; s < P::SLICE / 16; ++s) {
    const auto b = unroll_describe(unroll_chunk<B>(slot, row, group * P::SLICE + s * 16), B::CHUNK, 128);
#pragma unroll
    for (int i = 0; i < P::TILES; ++i) {
      if constexpr (P::KIND == 1) unroll_wgmma_bf16(sums[i], weights[s * P::TILES + i], b);
      else unroll_wgmma_f16(sums[i], weights[s * P::TILES + i], b);
    }
  }
  unroll_wgmma_end();
#pragma unroll
  for (int i = 0; i < P::TILES; ++i)
#pragma unroll
    for (int j = 0; j < P::ROWS / 8; ++j) {
      float* const at = to + (group * P::ROWS + j * 8 + lane % 4 * 2) * P::PITCH + i * 64 + warp % 4 * 16 + lane / 4;
      at[0] = sums[i][j * 4], at[P::PITCH] = sums[i][j * 4 + 1];
      at[8] = sums[i][j * 4 + 2], at[P::PITCH + 8] = sums[i][j * 4 + 3];
    }
}
)CUDA";

}  // namespace

std::string wgmma_prelude() { return std::string(k_wgmma).append(k_wgmma_sums); }

}  // namespace unroll::cuda
