// SPDX-License-Identifier: Apache-2.0
// Functions of loops that are one kernel, and of resident ones. P has the constants of a product (print_product.cc).
// Instructions of the device are inline PTX, which tests on the host replace.
#include <string_view>

#include "backends/cuda/kernels/prelude.h"

namespace unroll::cuda {

namespace {

// The barrier is that of cooperative groups: the first block adds what takes the count of all to the highest bit. A
// compiler may leave out a loop that only reads until a value changes, unless its loads are volatile: hence the PTX.
constexpr std::string_view k_waits = R"(
#ifndef UNROLL_SHIM
__device__ inline unsigned unroll_arrive(unsigned* arrived, unsigned n) {
#if __CUDA_ARCH__ >= 700
  unsigned before;
  asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(arrived), "r"(n) : "memory");
  return before;
#else
  __threadfence();
  return atomicAdd(arrived, n);
#endif
}
__device__ inline unsigned unroll_arrivals(const unsigned* arrived) {
  unsigned n;
#if __CUDA_ARCH__ >= 700
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(n) : "l"(arrived) : "memory");
#else
  n = *(const volatile unsigned*)arrived;
  __threadfence();
#endif
  return n;
}
#endif
__device__ inline void unroll_wait(unsigned* arrived, unsigned first, unsigned blocks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned before = unroll_arrive(arrived, blockIdx.x == first ? 0x80000000u - (blocks - 1u) : 1u);
    while (((before ^ unroll_arrivals(arrived)) & 0x80000000u) == 0u) {}
  }
  __syncthreads();
}
)";

constexpr std::string_view k_device = R"(
#ifndef UNROLL_SHIM
extern __shared__ uint4 unroll_dynamic_memory[];
__device__ inline char* unroll_shared_memory() { return (char*)unroll_dynamic_memory; }
template <class Vector>
__device__ inline Vector unroll_vector(const void* at) {
  return *(const Vector*)at;
}
#define UNROLL_MMA(kind, shape)                                                                                  \
  __device__ inline void unroll_mma_##kind(float (&sums)[4], const uint4& a, unsigned b, unsigned c) {           \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." #kind "." #kind ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
                 "{%8,%9}, {%0,%1,%2,%3};"                                                                       \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                    \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b), "r"(c));                                      \
  }
UNROLL_MMA(bf16, "m16n8k16")
UNROLL_MMA(f16, "m16n8k16")
UNROLL_MMA(tf32, "m16n8k8")
// All threads of the blocks of a cluster; what they wrote before is there for all of them.
__device__ inline void unroll_cluster_wait(unsigned) {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
#endif
)";

constexpr std::string_view k_loads = R"(
template <bool VECTORS>
__device__ inline float4 unroll_load_four(const float* at, int n) {  // n of them are there
  float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
  if (VECTORS) {
    if (n > 0) x = unroll_vector<float4>(at);
    return x;
  }
  if (n > 0) x.x = at[0];
  if (n > 1) x.y = at[1];
  if (n > 2) x.z = at[2];
  if (n > 3) x.w = at[3];
  return x;
}
__device__ inline unsigned unroll_to_tf32(float x) {  // to nearest, ties to even
  const unsigned bits = unroll_bits(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u;
}
// The first operand is the lower half.
__device__ inline unsigned unroll_pair(unsigned low, unsigned high) { return low | high << 16; }
// Neighboring terms of a row of the state, as operands of tensor cores.
template <class P>
__device__ inline uint4 unroll_load_terms(const uint16_t* at, int n) {
  uint4 x = {0u, 0u, 0u, 0u};
  if (P::VECTORS) {
    if (n > 0) x = unroll_vector<uint4>(at);
    return x;
  }
  x.x = unroll_pair(n > 0 ? at[0] : 0u, n > 1 ? at[1] : 0u);
  x.y = unroll_pair(n > 2 ? at[2] : 0u, n > 3 ? at[3] : 0u);
  x.z = unroll_pair(n > 4 ? at[4] : 0u, n > 5 ? at[5] : 0u);
  x.w = unroll_pair(n > 6 ? at[6] : 0u, n > 7 ? at[7] : 0u);
  return x;
}
template <class P>
__device__ inline unsigned unroll_operand(float x) {
  return P::KIND == 1 ? unroll_to_bf16(x) : P::KIND == 2 ? unroll_to_f16(x) : P::ROUNDS ? unroll_to_tf32(x)
                                                                                         : unroll_bits(x);
}
template <class P>
__device__ inline uint4 unroll_load_terms(const float* at, int n) {
  const float4 x = unroll_load_four<P::VECTORS>(at, n);
  uint4 bits = {unroll_operand<P>(x.x), unroll_operand<P>(x.y), unroll_operand<P>(x.z), unroll_operand<P>(x.w)};
  if (P::KIND == 3 || P::KIND == 0) return bits;
  const float4 y = unroll_load_four<P::VECTORS>(at + 4, n - 4);
  bits.x = unroll_pair(bits.x, bits.y), bits.y = unroll_pair(bits.z, bits.w);
  bits.z = unroll_pair(unroll_operand<P>(y.x), unroll_operand<P>(y.y));
  bits.w = unroll_pair(unroll_operand<P>(y.z), unroll_operand<P>(y.w));
  return bits;
}
// Rows of an operand in memory: n terms from k on are there.
template <class P, class T>
struct unroll_rows {
  const T* a;
  __device__ inline const T* at(int row, int k) const { return a + (long long)row * P::ROW + k; }
  __device__ inline uint4 terms(int row, int k, int n) const { return unroll_load_terms<P>(at(row, k), n); }
  __device__ inline float4 four(int row, int k, int n) const { return unroll_load_four<P::VECTORS>(at(row, k), n); }
};
)";

// Thread 4g + q of a warp holds of a tile of 16 x 16 weights rows g and g + 8, and of each the terms 2q, 2q + 1,
// 2q + 8, 2q + 9 (PTX ISA, m16n8k16, "A"); those of the state are the same terms of row g ("B"). A lane loads eight
// neighboring terms 8q .. 8q + 7 of a block of 32 of the state, so these terms are 8q + 4h + 0 .. 3 for its half h. In
// tf32 (m16n8k8) rows have the terms q and q + 4: 4q + 2h and the next one of a block of 16.
constexpr std::string_view k_weights = R"(
template <class P, class T>
__device__ inline T unroll_weight(const T* w, int gate, int unit, int k) {
  const int column = gate * P::UNITS + unit;
  const bool there = unit < P::UNITS && k < P::K;
  return there ? w[P::TRANSPOSED ? column * P::K + k : k * P::WIDTH + column] : T(0);
}
template <class P>
__device__ inline unsigned unroll_weight_word(const uint16_t* w, int gate, int unit, int k) {
  return unroll_pair(unroll_weight<P>(w, gate, unit, k), unroll_weight<P>(w, gate, unit, k + 1));
}
template <class P>
__device__ inline unsigned unroll_weight_word(const float* w, int gate, int unit, int k) {
  return unroll_to_tf32(unroll_weight<P>(w, gate, unit, k));
}
template <class P, class T>
__device__ inline uint4 unroll_fragment(const T* w, int first_unit, int warp, int lane, int f) {
  const int tile = f % P::TILES, half = f / P::TILES % 2, block = f / P::TILES / 2;
  const int k = warp * P::SLICE + block * P::TERMS + lane % 4 * (P::TERMS / 4) + half * (P::TERMS / 8);
  const int gate = tile * 16 / P::OWN, unit = first_unit + tile * 16 % P::OWN + lane / 4, next = k + P::TERMS / 16;
  const uint4 bits = {unroll_weight_word<P>(w, gate, unit, k), unroll_weight_word<P>(w, gate, unit + 8, k),
                      unroll_weight_word<P>(w, gate, unit, next), unroll_weight_word<P>(w, gate, unit + 8, next)};
  return bits;
}
// Fragments of all warps in shared memory.
struct unroll_shared_fragments {
  const uint4* at;  // of the lane
  __device__ inline uint4 operator[](int f) const { return at[f * 32]; }
};
template <class P>
__device__ inline uint4* unroll_fragments_of(int warp, int lane) {
  return (uint4*)(unroll_shared_memory() + P::AT) + warp * P::FRAGMENTS * 32 + lane;
}
template <class P, class T>
__device__ inline void unroll_load_fragments(const T* w, int first_unit) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  if (warp < P::SLICES)
    for (int f = 0; f < P::FRAGMENTS; ++f)
      unroll_fragments_of<P>(warp, lane)[f * 32] = unroll_fragment<P>(w, first_unit, warp, lane, f);
}
template <class P, class T>
__device__ inline void unroll_keep_fragments(uint4 (&weights)[P::FRAGMENTS], const T* w, int first_unit) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int f = 0; f < P::FRAGMENTS; ++f) weights[f] = unroll_fragment<P>(w, first_unit, warp, lane, f);
}
// float [k][columns] in shared memory.
template <class P>
__device__ inline void unroll_load_columns(const float* w, int first_unit) {
  float* const to = (float*)(unroll_shared_memory() + P::AT);
  for (int e = int(threadIdx.x); e < P::K_PADDED * P::COLUMNS; e += int(blockDim.x)) {
    const int column = e % P::COLUMNS, gate = column / P::OWN;
    to[e] = gate < P::GATES ? unroll_weight<P>(w, gate, first_unit + column % P::OWN, e / P::COLUMNS) : 0.0f;
  }
}
)";

// Sums of a warp, for its slice of the terms and ROWS rows from `tile` on, to float [SLICES][ROWS][PITCH].
constexpr std::string_view k_sums = R"(
template <class P, class Rows, class Weights>
__device__ __forceinline__ void unroll_tensor_sums(const Rows& a, const Weights& weights, float* to, int tile,
                                                   int end) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, q = lane % 4;
  if (warp >= P::SLICES) return;
  float sums[P::TILES][P::ROWS / 8][4] = {};
#pragma unroll (P::IN_REGISTERS ? P::SLICE / P::TERMS : 2)
  for (int s = 0; s < P::SLICE / P::TERMS; ++s) {
    const int k = warp * P::SLICE + s * P::TERMS + q * (P::TERMS / 4);
    uint4 state[P::ROWS / 8];
#pragma unroll
    for (int j = 0; j < P::ROWS / 8; ++j) {
      const int row = tile + lane / 4 + j * 8;
      state[j] = a.terms(row, k, row < end ? P::K - k : 0);
    }
#pragma unroll
    for (int i = 0; i < P::TILES; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 w = weights[(s * 2 + half) * P::TILES + i];
#pragma unroll
        for (int j = 0; j < P::ROWS / 8; ++j) {
          const unsigned b = half == 0 ? state[j].x : state[j].z, c = half == 0 ? state[j].y : state[j].w;
          if constexpr (P::KIND == 1) unroll_mma_bf16(sums[i][j], w, b, c);
          else if constexpr (P::KIND == 2) unroll_mma_f16(sums[i][j], w, b, c);
          else unroll_mma_tf32(sums[i][j], w, b, c);
        }
      }
  }
#pragma unroll
  for (int i = 0; i < P::TILES; ++i)
#pragma unroll
    for (int j = 0; j < P::ROWS / 8; ++j) {
      float* const at = to + (warp * P::ROWS + j * 8 + q * 2) * P::PITCH + i * 16 + lane / 4;
      at[0] = sums[i][j][0], at[P::PITCH] = sums[i][j][1];
      at[8] = sums[i][j][2], at[P::PITCH + 8] = sums[i][j][3];
    }
}
template <class P, class Rows>
__device__ __forceinline__ void unroll_fma_sums(const Rows& a, float* to, int tile, int end) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  if (warp >= P::SLICES) return;
  const int quad = lane % P::LANES, first = lane / P::LANES;
  const float4* const weights = (const float4*)(unroll_shared_memory() + P::AT);
  const int k_end = (warp + 1) * P::SLICE < P::K_PADDED ? (warp + 1) * P::SLICE : P::K_PADDED;
  float sums[P::THREAD_ROWS][P::QUADS][4] = {};
#pragma unroll 2
  for (int k = warp * P::SLICE; k < k_end; k += 4) {
    float4 state[P::THREAD_ROWS];
#pragma unroll
    for (int i = 0; i < P::THREAD_ROWS; ++i) {
      const int row = tile + first + i * (32 / P::LANES);
      state[i] = a.four(row, k, row < end ? P::K - k : 0);
    }
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
      for (int j = 0; j < P::QUADS; ++j) {
        const float4 w = weights[(k + t) * (P::COLUMNS / 4) + quad + j * P::LANES];
#pragma unroll
        for (int i = 0; i < P::THREAD_ROWS; ++i) {
          const float x = t == 0 ? state[i].x : t == 1 ? state[i].y : t == 2 ? state[i].z : state[i].w;
          sums[i][j][0] = unroll_fma(x, w.x, sums[i][j][0]);
          sums[i][j][1] = unroll_fma(x, w.y, sums[i][j][1]);
          sums[i][j][2] = unroll_fma(x, w.z, sums[i][j][2]);
          sums[i][j][3] = unroll_fma(x, w.w, sums[i][j][3]);
        }
      }
  }
#pragma unroll
  for (int i = 0; i < P::THREAD_ROWS; ++i)
#pragma unroll
    for (int j = 0; j < P::QUADS; ++j) {
      const float4 x = {sums[i][j][0], sums[i][j][1], sums[i][j][2], sums[i][j][3]};
      const int row = warp * P::ROWS + first + i * (32 / P::LANES);
      *(float4*)(to + row * P::PITCH + (quad + j * P::LANES) * 4) = x;
    }
}
// Adds the sums of the slices for an element, in their order.
template <class P>
__device__ inline float unroll_add_slices(const float* at) {
  float sum = at[0];
#pragma unroll
  for (int i = 1; i < P::SLICES; ++i) sum += at[i * (P::ROWS * P::PITCH)];
  return sum;
}
)";

}  // namespace

std::string loop_prelude() { return std::string(k_waits); }

std::string resident_prelude() {
  return std::string(k_device).append(k_loads).append(k_weights).append(k_sums) + exchange_prelude();
}

}  // namespace unroll::cuda
