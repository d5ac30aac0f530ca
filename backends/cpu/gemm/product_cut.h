// SPDX-License-Identifier: Apache-2.0
// How a product is cut into blocks of k, columns and rows, and how blocks are copied: for products that pack b in each
// run (calls/kernels_matmul.cc) and for those that have packed it before (packed_product.cc).
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
// A packed k.
inline Index depth_of(const GemmKernels& kernels, Index k) {
  return ceil_div(k, kernels.k_multiple) * kernels.k_multiple;
}
inline Index block_start(const GemmKernels& kernels, Index k, Index step, Index steps) {
  return k_start(k, step, steps, kernels.k_multiple);
}

inline Index whole_tiles(const GemmKernels& kernels, Index rows) {
  return std::max<Index>(1, rows / kernels.tile_rows) * kernels.tile_rows;
}

// Many rows: each part takes its rows of c and needs all of b. Otherwise each part takes its panels.
bool split_by_rows(Index m, Index panels, int parts);
// Whether products read another a than the one that is stored.
bool converts_a(const Matmul& matmul, const GemmKernels& kernels);
// [rows, columns], converted where the dtypes differ; strides in elements.
void copy_rows(DType from, DType to, const void* x, Index x_stride, Index rows, Index columns, void* y,
               Index y_stride);

// How k, columns and rows are cut. Results of 16 bits are summed in one go, with fewer columns and rows at once.
struct Cut {
  Index k_steps, depth, panels, rows;
};
Cut cut_of(const Matmul& matmul, const GemmKernels& kernels);

}  // namespace unroll::cpu::cut
