// SPDX-License-Identifier: Apache-2.0
// Division of a matmul into blocks of k, columns and rows, and copying of blocks. Shared by matmuls that pack b in each
// run (ops/kernels_matmul.cc) and matmuls with a previously packed b (packed_product.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/gemm/gemm.h"

namespace unroll::cpu::cut {

using Index = std::int64_t;

inline std::byte* at(void* base, Index bytes) { return static_cast<std::byte*>(base) + bytes; }
inline const std::byte* at(const void* base, Index bytes) { return static_cast<const std::byte*>(base) + bytes; }

inline Index bytes_of(DType dtype) { return static_cast<Index>(dtype_bytes(dtype)); }
inline Index stored_bytes(const Matmul& matmul) { return bytes_of(matmul.dtype); }  // of an element of a and b
inline Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
inline Index panels_of(const Matmul& matmul, const GemmKernels& kernels) {
  return ceil_div(matmul.n, kernels.columns);
}
// Packed depth of k.
inline Index depth_of(const GemmKernels& kernels, Index k) {
  return ceil_div(k, kernels.k_multiple) * kernels.k_multiple;
}
inline Index block_start(const GemmKernels& kernels, Index k, Index step, Index steps) {
  return k_start(k, step, steps, kernels.k_multiple);
}

inline Index whole_tiles(const GemmKernels& kernels, Index rows) {
  return std::max<Index>(1, rows / kernels.tile_rows) * kernels.tile_rows;
}

// True for many rows: each worker takes its rows of c and needs all of b. Otherwise each worker takes its panels.
bool split_by_rows(Index m, Index panels, int parts);
// True if the kernels read a copy of a instead of the stored a.
bool converts_a(const Matmul& matmul, const GemmKernels& kernels);
// Copies [rows, columns], converting if the dtypes differ; strides in elements.
void copy_rows(DType from, DType to, const void* x, Index x_stride, Index rows, Index columns, void* y,
               Index y_stride);
// Rows [row, row + rows) of a and their elements [k, k + depth).
struct Part {
  Index row, rows, k, depth;
};
// Writes a part of a as the kernels read it. `windows` has room for window_bytes_of_a.
void copy_a(const Matmul& matmul, const GemmKernels& kernels, const void* a, Part part, void* to, Index stride,
            void* windows);
Index window_bytes_of_a(const Matmul& matmul, const GemmKernels& kernels, Index rows, Index depth);

// Division of k, columns and rows. 16-bit results are summed in one pass over k, with fewer columns and rows at once.
struct Cut {
  Index k_steps, depth, panels, rows;
};
Cut cut_of(const Matmul& matmul, const GemmKernels& kernels);

}  // namespace unroll::cpu::cut
