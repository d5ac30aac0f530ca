// SPDX-License-Identifier: Apache-2.0
// Matmuls with a previously packed b.
#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/product_cut.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

using namespace cut;

bool computes_whole_rows_packed(const Matmul& matmul, int parts) {
  return parts == 1 || split_by_rows(matmul.m, panels_of(matmul, gemm_kernels(matmul.dtype)), parts);
}

std::size_t packed_bytes(const Matmul& matmul) {
  if (!matmul.single() || matmul.transpose_a)
    throw Error(ErrorKind::internal, "cpu matmul", "only a plain product with a row-major a has a packed b");
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  return panels_of(matmul, kernels) * kernels.columns * depth_of(kernels, matmul.k) * bytes_of(kernels.operand);
}

void run_pack(const Matmul& matmul, const void* b, void* packed, const Worker& worker) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  const Range mine = worker.share(panels_of(matmul, kernels));
  kernels.pack(b, matmul.b_stride, matmul.transpose_b, matmul.k, matmul.n, mine.begin, mine.end,
               depth_of(kernels, matmul.k) * kernels.columns, packed);
}

void run_pack_columns(const Matmul& matmul, const void* b, Index groups, Range own, void* packed) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  const Index size = bytes_of(kernels.operand), k = matmul.k, group = matmul.n / groups, width = own.end - own.begin;
  const Index columns = groups * width, panel_bytes = depth_of(kernels, k) * kernels.columns * size;
  const auto column_of = [&](Index c) { return c / width * group + own.begin + c % width; };
  const auto from = [&](Index column) {
    return at(b, (matmul.transpose_b ? column * matmul.b_stride : column) * stored_bytes(matmul));
  };
  for (Index first = 0; first < columns; first += kernels.columns) {
    std::byte* panel = at(packed, first / kernels.columns * panel_bytes);
    const Index last = std::min(first + kernels.columns, columns);
    const bool filled_up = last - first < kernels.columns || depth_of(kernels, k) > k;
    if (filled_up) std::memset(panel, 0, panel_bytes);
    for (Index c = first; c < last;) {  // a run of columns of one group
      const Index count = std::min(last - c, width - c % width);
      std::byte* to = at(panel, (c - first) * size * (kernels.pack_columns ? 2 : 1));  // pairs are adjacent
      const void* source = from(column_of(c));
      if (kernels.pack_columns) {
        kernels.pack_columns(source, matmul.b_stride, matmul.transpose_b, k, count, to);
      } else if (matmul.transpose_b) {
        kernels.transpose(source, matmul.b_stride, count, k, to, kernels.columns);
      } else {
        copy_rows(matmul.dtype, kernels.operand, source, matmul.b_stride, k, count, to, kernels.columns);
      }
      c += count;
    }
  }
}

std::size_t packed_scratch_bytes(const Matmul& matmul) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  if (!converts_a(matmul, kernels)) return 0;
  const Cut cut = cut_of(matmul, kernels);
  const Index depth = depth_of(kernels, matmul.a_windows ? matmul.k : cut.depth);  // smaller formats read whole rows
  const Index rows = std::min(cut.rows, matmul.m);
  return rows * depth * bytes_of(kernels.operand) + window_bytes_of_a(matmul, kernels, rows, depth);
}

Block run_packed(const Matmul& matmul, const void* a, const void* packed, void* c, const Worker& worker,
                 void* scratch) {
  const GemmKernels& kernels = gemm_kernels(matmul.dtype);
  const Index panels = panels_of(matmul, kernels);
  const bool by_rows = split_by_rows(matmul.m, panels, worker.count);
  const Range rows = by_rows ? worker.share(matmul.m) : Range{0, matmul.m};
  const Range mine = by_rows ? Range{0, panels} : worker.share(panels);
  const Block block{rows, {mine.begin * kernels.columns, std::min(mine.end * kernels.columns, matmul.n)}};
  if (block.empty()) return block;
  const Index panel_stride = depth_of(kernels, matmul.k) * kernels.columns;
  const auto c_at = [&](Index row) { return at(c, row * matmul.c_stride * bytes_of(matmul.result)); };
  if (!converts_a(matmul, kernels)) {
    kernels.multiply(rows.end - rows.begin, matmul.n, matmul.k,
                     at(a, rows.begin * matmul.a_stride * stored_bytes(matmul)), matmul.a_stride, packed,
                     panel_stride, mine.begin, mine.end, false, c_at(rows.begin), matmul.c_stride, matmul.result);
    return block;
  }
  const Cut cut = cut_of(matmul, kernels);
  for (Index step = 0; step < cut.k_steps; ++step) {
    const Index k0 = block_start(kernels, matmul.k, step, cut.k_steps);
    const Index depth = block_start(kernels, matmul.k, step + 1, cut.k_steps) - k0;
    for (Index row = rows.begin; row < rows.end; row += cut.rows) {
      const Index m = std::min(cut.rows, rows.end - row);
      const Index stride = depth_of(kernels, depth);
      copy_a(matmul, kernels, a, {row, m, k0, depth}, scratch, stride,
             at(scratch, m * stride * bytes_of(kernels.operand)));
      kernels.multiply(m, matmul.n, depth, scratch, stride,
                       at(packed, k0 * kernels.columns * bytes_of(kernels.operand)), panel_stride, mine.begin, mine.end,
                       step > 0, c_at(row), matmul.c_stride, matmul.result);
    }
  }
  return block;
}

}  // namespace unroll::cpu
