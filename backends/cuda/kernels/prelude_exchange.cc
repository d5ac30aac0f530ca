// SPDX-License-Identifier: Apache-2.0
// Functions of exchanges through the shared memory of a cluster. B has the constants of a buffer (exchange_buffers.cc).
#include <string_view>

#include "backends/cuda/kernels/prelude.h"

namespace unroll::cuda {

namespace {

// PTX ISA, "mapa" and "st": the address of the same variable in another block of the cluster, and a store there.
constexpr std::string_view k_peers = R"(
#ifndef UNROLL_SHIM
#if __CUDA_ARCH__ >= 900
__device__ inline unsigned unroll_peer(const void* at, unsigned rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(rank));
  return there;
}
__device__ inline void unroll_store_peer(const void* at, unsigned rank, uint4 x) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "r"(unroll_peer(at, rank)), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ inline void unroll_store_peer(const void* at, unsigned rank, uint2 x) {
  asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};"
               :: "r"(unroll_peer(at, rank)), "r"(x.x), "r"(x.y) : "memory");
}
__device__ inline void unroll_store_peer(const void* at, unsigned rank, unsigned x) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(unroll_peer(at, rank)), "r"(x) : "memory");
}
__device__ inline void unroll_store_peer(const void* at, unsigned rank, uint16_t x) {
  asm volatile("st.shared::cluster.u16 [%0], %1;" :: "r"(unroll_peer(at, rank)), "h"(x) : "memory");
}
#else
template <class Vector>
__device__ inline void unroll_store_peer(const void*, unsigned, Vector) {}
#endif
#endif
)";

constexpr std::string_view k_buffers = R"(
__device__ inline void unroll_clear(int at, int bytes) {
  unsigned* const words = (unsigned*)(unroll_shared_memory() + at);
  for (int i = int(threadIdx.x); i < bytes / 4; i += int(blockDim.x)) words[i] = 0u;
}
template <class B>
__device__ inline char* unroll_slot(int slot) { return unroll_shared_memory() + B::AT + slot * B::SLOT; }
// Behind the rows of a slot: where the rows end that were written, in the rows of the operand.
template <class B>
__device__ inline int* unroll_rows_of(char* slot) { return (int*)(slot + B::SLOT - 16); }
template <class B>
__device__ inline const char* unroll_chunk(const char* slot, int row, int k) {
  return slot + k / B::VECTOR * B::CHUNK + row * 16;
}
// Rows of an operand in a buffer, as unroll_rows has those in memory.
template <class B>
struct unroll_buffer_rows {
  const char* slot;
  int first;
  __device__ inline uint4 terms(int row, int k, int n) const {
    uint4 x = {0u, 0u, 0u, 0u};
    if (n > 0) x = unroll_vector<uint4>(unroll_chunk<B>(slot, row - first, k));
    return x;
  }
  __device__ inline float4 four(int row, int k, int n) const {
    float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
    if (n > 0) x = unroll_vector<float4>(unroll_chunk<B>(slot, row - first, k));
    return x;
  }
};
// Rows [from, end) of the operand from memory, in the format of the buffer, zeros behind the last column.
template <class B, class Rows>
__device__ inline void unroll_fill(const Rows& rows, char* slot, int first, int from, int end) {
  constexpr int CHUNKS = (B::K + B::VECTOR - 1) / B::VECTOR;
  for (int i = int(threadIdx.x); i < (end - from) * CHUNKS; i += int(blockDim.x)) {
    const int row = from + i / CHUNKS, k = i % CHUNKS * B::VECTOR;
    *(uint4*)unroll_chunk<B>(slot, row - first, k) = rows.terms(row, k, B::K - k);
  }
  __syncthreads();
}
template <class B>
__device__ inline void unroll_put(char* slot, int row, int k, unsigned bits) {  // in the format of the buffer
  char* const at = (char*)unroll_chunk<B>(slot, row, k);
  if (B::VECTOR == 8) ((uint16_t*)at)[k % 8] = (uint16_t)bits;
  else ((unsigned*)at)[k % 4] = bits;
}
template <class B>
__device__ inline void unroll_put(char* slot, int row, int k, float x) {
  unroll_put<B>(slot, row, k, unroll_operand<B>(x));
}
// Columns [begin, end) of the first rows to the other blocks of the cluster. Each block begins with its neighbor, so
// that no block gets the stores of all others at the same time.
template <class B, class Vector>
__device__ inline void unroll_send(const char* slot, int rows, int begin, int end) {
  constexpr int ELEMENT = 16 / B::VECTOR, WIDTH = int(sizeof(Vector)) / ELEMENT;
  const int n = rows * ((end - begin) / WIDTH);
  if (rows <= 0 || end <= begin) return;
  const unsigned own = blockIdx.x % unsigned(B::BLOCKS);
  for (int i = int(threadIdx.x); i < n * (B::BLOCKS - 1); i += int(blockDim.x)) {
    const int item = i % n, k = begin + item / rows * WIDTH;
    const char* const at = unroll_chunk<B>(slot, item % rows, k) + k % B::VECTOR * ELEMENT;
    unroll_store_peer(at, (own + 1u + unsigned(i / n)) % unsigned(B::BLOCKS), *(const Vector*)at);
  }
}
)";

}  // namespace

std::string exchange_prelude() { return std::string(k_peers).append(k_buffers); }

}  // namespace unroll::cuda
