// SPDX-License-Identifier: Apache-2.0
// Matmuls of 16-bit operands in f32, for processors without instructions for them. Packing and transposing convert the
// operands, so that the matmul runs at the speed of f32.
#include <algorithm>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels/elementwise.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

// Converts [rows, columns] from 16 bits to f32; strides in elements.
template <DType from>
void widen(const std::uint16_t* x, Index x_stride, Index rows, Index columns, float* to, Index to_stride) {
  tile_function(Op::cast, from, DType::f32)({to, x, nullptr, nullptr, to_stride * Index{sizeof(float)},
                                             x_stride * Index{sizeof(*x)}, 0, 0, static_cast<std::size_t>(rows),
                                             static_cast<std::size_t>(columns)});
}

// to[j * to_stride + i] = from[i * from_stride + j], in blocks that stay in L1.
template <DType from>
void widen_transposed(const void* x, Index x_stride, Index rows, Index columns, void* to, Index to_stride) {
  constexpr Index k_rows = 64, k_columns = 32, k_skew = 16;
  const auto transpose = gemm_kernels(DType::f32).transpose;
  alignas(64) float block[k_rows * (k_columns + k_skew)];
  for (Index i = 0; i < rows; i += k_rows)
    for (Index j = 0; j < columns; j += k_columns) {
      const Index m = std::min(k_rows, rows - i), n = std::min(k_columns, columns - j);
      widen<from>(static_cast<const std::uint16_t*>(x) + i * x_stride + j, x_stride, m, n, block, k_columns + k_skew);
      transpose(block, k_columns + k_skew, m, n, static_cast<float*>(to) + j * to_stride + i, to_stride);
    }
}

template <DType from>
void pack(const void* b, Index stride, bool transposed, Index k, Index n, Index begin, Index end, Index panel_stride,
          void* packed) {
  const Index k_columns = gemm_kernels(DType::f32).columns;
  const auto* source = static_cast<const std::uint16_t*>(b);
  for (Index p = begin; p < end; ++p) {
    float* panel = static_cast<float*>(packed) + p * panel_stride;
    const Index column = p * k_columns, columns = std::min(k_columns, n - column);
    if (transposed) widen_transposed<from>(source + column * stride, stride, columns, k, panel, k_columns);
    else widen<from>(source + column, stride, k, columns, panel, k_columns);
    for (Index i = 0; i < k && columns < k_columns; ++i)
      std::fill(panel + i * k_columns + columns, panel + (i + 1) * k_columns, 0.0F);
  }
}

}  // namespace

void pack_bf16(const void* b, Index stride, bool transposed, Index k, Index n, Index begin, Index end,
               Index panel_stride, void* packed) {
  pack<DType::bf16>(b, stride, transposed, k, n, begin, end, panel_stride, packed);
}
void pack_f16(const void* b, Index stride, bool transposed, Index k, Index n, Index begin, Index end,
              Index panel_stride, void* packed) {
  pack<DType::f16>(b, stride, transposed, k, n, begin, end, panel_stride, packed);
}
void transpose_bf16(const void* from, Index from_stride, Index rows, Index columns, void* to, Index to_stride) {
  widen_transposed<DType::bf16>(from, from_stride, rows, columns, to, to_stride);
}
void transpose_f16(const void* from, Index from_stride, Index rows, Index columns, void* to, Index to_stride) {
  widen_transposed<DType::f16>(from, from_stride, rows, columns, to, to_stride);
}

}  // namespace unroll::cpu
