// SPDX-License-Identifier: Apache-2.0
// The matrix kernels of the running processor. b is read from panels (packed column blocks), a row by row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "unroll/support/types.h"

namespace unroll::cpu {

// Sums over k restart at equal blocks of at most `block`; one block when k is 0.
inline std::int64_t k_blocks(std::int64_t k, std::int64_t block) {
  return std::max<std::int64_t>(1, (k + block - 1) / block);
}
// Where block `block` of k begins, at a multiple of `multiple`.
inline std::int64_t k_start(std::int64_t k, std::int64_t block, std::int64_t blocks, std::int64_t multiple) {
  return block < blocks ? k * block / blocks / multiple * multiple : k;
}

// A packed b: panel p holds columns [p * columns, (p + 1) * columns) as [k][columns], zeros beyond the last column.
// 16-bit operands are converted to `operand` while b is packed and a is transposed or copied.
struct GemmKernels {
  DType operand;          // of packed panels and of the a that products read: f32, f64, or bf16 where the processor has
                          // products of it; panels of bf16 are [k / 2][columns][2]
  std::int64_t columns;   // of a panel
  std::int64_t k_block;   // rows of a panel that stay in L1 while rows of a pass by
  std::int64_t few_rows;  // so many rows of a are worth no packing of b
  // Packs panels [begin, end) of b [k, n] (or [n, k] when transposed; `stride` between stored rows).
  // Panels lie `panel_stride` elements apart in `packed`.
  void (*pack)(const void* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t n,
               std::int64_t begin, std::int64_t end, std::int64_t panel_stride, void* packed);
  // to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
  void (*transpose)(const void* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, void* to,
                    std::int64_t to_stride);
  // Rows [0, m) of panels [begin, end): c = (accumulate ? c : 0) + a * b. packed and c start at panel 0.
  // c is of `result`: of 16 bits it is not accumulated to, and its sums do not restart.
  void (*multiply)(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, std::int64_t a_stride,
                   const void* packed, std::int64_t panel_stride, std::int64_t begin, std::int64_t end,
                   bool accumulate, void* c, std::int64_t c_stride, DType result);
  // The same for a b [k, n] that is not packed, of f32 or f64; `tail` has room for one panel.
  void (*multiply_rows)(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, std::int64_t a_stride,
                        const void* b, std::int64_t b_stride, std::int64_t begin, std::int64_t end, void* tail,
                        void* c, std::int64_t c_stride);
  // Columns [begin, end) of c = a times the transpose of b [n, k], of f32 or f64.
  void (*multiply_dots)(std::int64_t m, std::int64_t k, const void* a, std::int64_t a_stride, const void* b,
                        std::int64_t b_stride, std::int64_t begin, std::int64_t end, void* c, std::int64_t c_stride);
  // Of bf16 panels: columns of b [k, n], or of its transpose, to columns of a panel from `to` on.
  void (*pack_columns)(const void* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t columns,
                       void* to) = nullptr;
  std::int64_t k_multiple = 1;  // zeros fill panels up to a multiple of so many k; blocks of k begin at multiples
  std::int64_t tile_rows;       // rows of a that are multiplied at once, at most
  std::int64_t panels_at_once = 32;  // that stay in L2
  std::int64_t a_multiple = 1;  // rows of a that are not so many elements apart, or a multiple, are copied first
};
// For operands of a float dtype.
const GemmKernels& gemm_kernels(DType dtype);

// How products of bf16 are computed: the best that the processor has, or converted to f32, in pairs (AVX512_BF16), or
// in tiles (AMX); the instructions of the last two may be computed by others.
enum class Bf16Products { best, converted, pairs, emulated_pairs, tiles, emulated_tiles };
// Tests: from here on as said. False, and nothing is changed, where the processor cannot; emulation needs AVX-512.
bool use_bf16_products(Bf16Products way);
// The instructions that multiply bf16, or null: converted to f32.
const char* bf16_instructions();
// pack and transpose of GemmKernels, from 16 bits to f32 (gemm_converted.cc).
void pack_bf16(const void* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t n, std::int64_t begin,
               std::int64_t end, std::int64_t panel_stride, void* packed);
void pack_f16(const void* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t n, std::int64_t begin,
              std::int64_t end, std::int64_t panel_stride, void* packed);
void transpose_bf16(const void* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, void* to,
                    std::int64_t to_stride);
void transpose_f16(const void* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, void* to,
                   std::int64_t to_stride);

}  // namespace unroll::cpu
