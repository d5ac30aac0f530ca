// SPDX-License-Identifier: Apache-2.0
// matmul: [..., M, K] x [..., K, N] -> [..., M, N], leading axes broadcast, sums in double. 16-bit operands give f32,
// or their dtype if the node requests it.
#include <algorithm>
#include <type_traits>

#include "backends/reference/kernels.h"
#include "core/support/formats.h"
#include "unroll/support/error.h"

namespace unroll::reference {

namespace {

struct Matrix {
  std::int64_t row_stride, column_stride;
};

Matrix matrix_of(const Shape& shape, bool transposed) {
  const std::int64_t width = shape[shape.rank() - 1];
  return transposed ? Matrix{1, width} : Matrix{width, 1};
}

// Returns the offset of each matrix of `operand` for each matrix of the result.
std::vector<std::int64_t> matrix_offsets(const Shape& operand, const Shape& result) {
  const auto leading = [](const Shape& s) { return Shape(s.dims().first(s.rank() - 2)); };
  auto strides = broadcast_strides(leading(operand), leading(result));
  const std::int64_t matrix = operand[operand.rank() - 2] * operand[operand.rank() - 1];
  for (std::int64_t& stride : strides) stride *= matrix;
  return offsets_of(leading(result), strides);
}

double wide(double x) { return x; }
double wide(Bf16 x) { return to_float(x); }
double wide(F16 x) { return to_float(x); }
template <class Result>
Result rounded_sum(double sum) {
  const auto rounded = static_cast<float>(sum);  // the accumulator
  if constexpr (std::is_same_v<Result, Bf16>) return to_bf16(rounded);
  else if constexpr (std::is_same_v<Result, F16>) return to_f16(rounded);
  else return static_cast<Result>(sum);
}

template <class T, class Result>
void multiply(const Call& call) {
  const bool transpose_a = call.node.attributes.get_or<bool>("transpose_a", false);
  const bool transpose_b = call.node.attributes.get_or<bool>("transpose_b", false);
  const Shape &sa = call.inputs[0].type.shape, &sb = call.inputs[1].type.shape, &sc = call.outputs[0].type.shape;
  const Matrix ma = matrix_of(sa, transpose_a), mb = matrix_of(sb, transpose_b);
  const std::int64_t m = sc[sc.rank() - 2], n = sc[sc.rank() - 1];
  // With a row count, further stored rows of a are ignored; their rows of the result are zero.
  const std::int64_t stored = call.inputs.size() > 2 ? *call.inputs[2].as<const std::int32_t>() : sa[sa.rank() - 2];
  const std::int64_t k = transpose_a ? std::clamp<std::int64_t>(stored, 0, sa[sa.rank() - 2]) : sa[sa.rank() - 1];
  const std::int64_t rows = transpose_a ? m : stored;
  const auto offsets_a = matrix_offsets(sa, sc), offsets_b = matrix_offsets(sb, sc);
  Result* c = call.outputs[0].as<Result>();
  for (std::size_t batch = 0; batch < offsets_a.size(); ++batch) {
    const T* a = call.inputs[0].as<const T>() + offsets_a[batch];
    const T* b = call.inputs[1].as<const T>() + offsets_b[batch];
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (std::int64_t i = 0; i < (row < rows ? k : 0); ++i)
          sum += wide(a[row * ma.row_stride + i * ma.column_stride]) *
                 wide(b[i * mb.row_stride + column * mb.column_stride]);
        *c++ = rounded_sum<Result>(sum);
      }
    }
  }
}

void matmul(const Call& call) {
  const bool stores_halves = is_half(call.outputs[0].type.dtype);
  switch (call.inputs[0].type.dtype) {
    case DType::f32: return multiply<float, float>(call);
    case DType::f64: return multiply<double, double>(call);
    case DType::bf16: return stores_halves ? multiply<Bf16, Bf16>(call) : multiply<Bf16, float>(call);
    case DType::f16: return stores_halves ? multiply<F16, F16>(call) : multiply<F16, float>(call);
    default: throw Error(ErrorKind::internal, "matmul", "no kernel for " + call.outputs[0].type.text());
  }
}

constexpr KernelRow k_linear_rows[] = {{Op::matmul, matmul}};

}  // namespace

std::span<const KernelRow> linear_kernels() { return k_linear_rows; }

}  // namespace unroll::reference
