// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/product_cut.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/elementwise.h"

namespace unroll::cpu::cut {

namespace {

constexpr Index k_rows_at_once = 240;  // a transposed block of a stays in L2

// Panels of this depth that stay in L2. For bf16 a small depth uses more panels, because writing c dominates.
Index panels_at_once(const GemmKernels& kernels, Index depth) {
  if (kernels.operand != DType::bf16 && depth < kernels.k_block) return kernels.panels_at_once;
  return std::max<Index>(1, kernels.panels_at_once * kernels.k_block / std::max<Index>(1, depth));
}

}  // namespace

bool split_by_rows(Index m, Index panels, int parts) {
  constexpr Index k_enough_rows = 64;
  return m >= k_enough_rows * parts || panels < parts;
}

void copy_rows(DType from, DType to, const void* x, Index x_stride, Index rows, Index columns, void* y,
               Index y_stride) {
  const Index size = bytes_of(to);
  if (from != to)
    return tile_function(Op::cast, from, to)({y, x, nullptr, nullptr, y_stride * size, x_stride * bytes_of(from), 0, 0,
                                              static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)});
  for (Index i = 0; i < rows; ++i)
    std::memcpy(at(y, i * y_stride * size), at(x, i * x_stride * size), columns * size);
}

bool converts_a(const Matmul& matmul, const GemmKernels& kernels) {
  return matmul.transpose_a || matmul.a_windows || matmul.dtype != kernels.operand ||
         matmul.a_stride % kernels.a_multiple != 0;
}

Index window_bytes_of_a(const Matmul& matmul, const GemmKernels& kernels, Index rows, Index depth) {
  const bool moves_twice = matmul.transpose_a || matmul.dtype != kernels.operand;
  return matmul.a_windows && moves_twice ? rows * depth * stored_bytes(matmul) : 0;
}

void copy_a(const Matmul& matmul, const GemmKernels& kernels, const void* a, Part part, void* to, Index stride,
            void* windows) {
  const auto [row, rows, k, depth] = part;
  const Index size = stored_bytes(matmul);
  const void* from = windows;
  Index from_stride = matmul.transpose_a ? rows : depth;
  if (!matmul.a_windows) {
    from = at(a, (matmul.transpose_a ? k * matmul.a_stride + row : row * matmul.a_stride + k) * size);
    from_stride = matmul.a_stride;
  } else if (matmul.transpose_a) {
    matmul.a_windows->copy(size, a, k, depth, row, rows, windows, from_stride);
  } else if (matmul.dtype == kernels.operand) {
    return matmul.a_windows->copy(size, a, row, rows, k, depth, to, stride);
  } else {
    matmul.a_windows->copy(size, a, row, rows, k, depth, windows, from_stride);
  }
  if (matmul.transpose_a) kernels.transpose(from, from_stride, depth, rows, to, stride);
  else copy_rows(matmul.dtype, kernels.operand, from, from_stride, rows, depth, to, stride);
}

Cut cut_of(const Matmul& matmul, const GemmKernels& kernels) {
  const Index most = kernels.k_block + (kernels.k_multiple == 1 ? 0 : kernels.k_multiple);  // block boundaries vary
  const Index depth = std::max<Index>(1, std::min(matmul.k, most));
  const Index rows = whole_tiles(kernels, k_rows_at_once);
  const Index blocks = k_blocks(matmul.k, kernels.k_block);
  if (!is_half(matmul.result)) return {blocks, depth, panels_at_once(kernels, depth), rows};
  const auto share = [&](Index n) { return std::max<Index>(1, n * depth / std::max<Index>(1, matmul.k)); };
  return {1, std::max<Index>(1, matmul.k), panels_at_once(kernels, matmul.k), std::max(kernels.tile_rows, share(rows))};
}

}  // namespace unroll::cpu::cut
