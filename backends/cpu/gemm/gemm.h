// SPDX-License-Identifier: Apache-2.0
// The matrix kernels of the running processor. They read b from panels (packed column blocks) and a row by row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "unroll/support/types.h"

namespace unroll::cpu {

// Number of k blocks of at most `block`; one if k is 0. Sums restart at each block.
inline std::int64_t k_blocks(std::int64_t k, std::int64_t block) {
  return std::max<std::int64_t>(1, (k + block - 1) / block);
}
// First k of block `block`: a multiple of `multiple`.
inline std::int64_t k_start(std::int64_t k, std::int64_t block, std::int64_t blocks, std::int64_t multiple) {
  return block < blocks ? k * block / blocks / multiple * multiple : k;
}

// A packed b: panel p holds columns [p * columns, (p + 1) * columns) as [k][columns], zero-padded beyond the last
// column. 16-bit operands are converted to `operand` while b is packed and a is transposed or copied.
struct GemmKernels {
  DType operand;          // of packed panels and of the converted a: f32, f64, or bf16 if the processor has bf16
                          // matmuls; panels of bf16 are [k / 2][columns][2]
  std::int64_t columns;   // columns of a panel
  std::int64_t k_block;   // rows of a panel that stay in L1 while rows of a are read
  // Packs panels [begin, end) of b [k, n] (or [n, k] when transposed; `stride` between stored rows).
  // Panels lie `panel_stride` elements apart in `packed`.
  void (*pack)(const void* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t n,
               std::int64_t begin, std::int64_t end, std::int64_t panel_stride, void* packed);
  // to[j * to_stride + i] = from[i * from_stride + j] for i < rows, j < columns.
  void (*transpose)(const void* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, void* to,
                    std::int64_t to_stride);
  // Rows [0, m) of panels [begin, end): c = (accumulate ? c : 0) + a * b. packed and c start at panel 0. c has dtype
  // `result`. If it has 16 bits, it is not accumulated to and its sums do not restart.
  void (*multiply)(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, std::int64_t a_stride,
                   const void* packed, std::int64_t panel_stride, std::int64_t begin, std::int64_t end,
                   bool accumulate, void* c, std::int64_t c_stride, DType result);
  // The same for an unpacked b [k, n] of f32 or f64; `tail` has room for one panel.
  void (*multiply_rows)(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, std::int64_t a_stride,
                        const void* b, std::int64_t b_stride, std::int64_t begin, std::int64_t end, void* tail,
                        void* c, std::int64_t c_stride);
  // Columns [begin, end) of c = a times the transpose of b [n, k], of f32 or f64.
  void (*multiply_dots)(std::int64_t m, std::int64_t k, const void* a, std::int64_t a_stride, const void* b,
                        std::int64_t b_stride, std::int64_t begin, std::int64_t end, void* c, std::int64_t c_stride);
  // For bf16 panels: packs columns of b [k, n], or of its transpose, into columns of a panel starting at `to`.
  void (*pack_columns)(const void* b, std::int64_t stride, bool transposed, std::int64_t k, std::int64_t columns,
                       void* to) = nullptr;
  std::int64_t k_multiple = 1;  // panels are zero-padded to a multiple of this k; blocks of k begin at multiples
  std::int64_t tile_rows;       // maximum rows of a in one tile
  std::int64_t panels_at_once = 32;  // panels that stay in L2
  std::int64_t a_multiple = 1;  // a is copied first unless its row stride is a multiple of this
};
// Returns the kernels for operands of a float dtype.
const GemmKernels& gemm_kernels(DType dtype);

// Implementation of bf16 matmuls: the best of the processor, conversion to f32, pairs (AVX512_BF16), or tiles (AMX).
// The emulated ones compute the instructions of the last two with others.
enum class Bf16Products { best, converted, pairs, emulated_pairs, tiles, emulated_tiles };
// For tests: select an implementation from now on. Returns false and changes nothing if the processor lacks it;
// emulation needs AVX-512.
bool use_bf16_products(Bf16Products way);
// Returns the name of the bf16 matmul instructions, or null: converted to f32.
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
