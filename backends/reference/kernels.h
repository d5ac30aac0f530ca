// SPDX-License-Identifier: Apache-2.0
// One plain kernel per op: the definition of the op. A kernel receives typed views. It may assume that shapes and
// dtypes match and that outputs do not overlap inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/support/error.h"

namespace unroll::reference {

struct View {
  Type type;
  std::byte* data = nullptr;

  template <class T> T* as() const { return reinterpret_cast<T*>(data); }
  std::int64_t elements() const { return type.shape.elements(); }
};

struct Call {
  const Node& node;
  std::span<const View> inputs;  // kernels only read these
  std::span<const View> outputs;
};

using Kernel = void (*)(const Call&);
struct KernelRow {
  Op op;
  Kernel kernel;
};

std::span<const KernelRow> elementwise_kernels();
std::span<const KernelRow> move_kernels();
std::span<const KernelRow> linear_kernels();
std::span<const KernelRow> reduce_kernels();
std::span<const KernelRow> index_kernels();

// Returns null for ops without a kernel: sources that a plan binds, scan, and composites.
Kernel find_kernel(Op op);

// Calls f with a zero of the C++ type of `dtype`, a type with arithmetic.
template <class F>
void for_number(DType dtype, F f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::i32: return f(std::int32_t{});
    case DType::b8: return f(std::uint8_t{});
    case DType::bf16:
    case DType::f16: break;
  }
  throw Error(ErrorKind::internal, "reference", "no arithmetic on " + std::string(dtype_name(dtype)));
}
// The same for any dtype, for moves and conversions.
template <class F>
void for_dtype(DType dtype, F f) {
  if (dtype == DType::bf16) return f(Bf16{});
  if (dtype == DType::f16) return f(F16{});
  for_number(dtype, f);
}

// Returns the distance in elements between neighbors along each axis of a dense row-major array.
std::vector<std::int64_t> dense_strides(const Shape& shape);
// Returns strides that read an array of shape `from` as if it had shape `to`: 0 along broadcast axes.
std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to);
// Returns, for each element of `shape` in row-major order, `start` plus the sum over axes of coordinate * stride.
std::vector<std::int64_t> offsets_of(const Shape& shape, std::span<const std::int64_t> strides, std::int64_t start = 0);

}  // namespace unroll::reference
