// SPDX-License-Identifier: Apache-2.0
// The table of kernels by op, and the index arithmetic that kernels share.
#include "backends/reference/kernels.h"

#include <array>

namespace unroll::reference {

namespace {

std::vector<Kernel> make_table() {
  std::vector<Kernel> table(op_table().size(), nullptr);
  for (const auto rows :
       {elementwise_kernels(), move_kernels(), linear_kernels(), reduce_kernels(), index_kernels()})
    for (const KernelRow& row : rows) table[static_cast<std::size_t>(row.op)] = row.kernel;
  return table;
}

}  // namespace

Kernel find_kernel(Op op) {
  static const std::vector<Kernel> table = make_table();
  return table[static_cast<std::size_t>(op)];
}

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank());
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to) {
  const auto dense = dense_strides(from);
  std::vector<std::int64_t> strides(to.rank(), 0);
  const int missing = to.rank() - from.rank();  // axes are aligned at the right
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] != 1) strides[axis + missing] = dense[axis];
  return strides;
}

std::vector<std::int64_t> offsets_of(const Shape& shape, std::span<const std::int64_t> strides, std::int64_t start) {
  std::vector<std::int64_t> offsets(shape.elements());
  std::array<std::int64_t, Shape::k_max_rank> at{};
  std::int64_t offset = start;
  for (std::int64_t& out : offsets) {
    out = offset;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      offset += strides[axis];
      if (++at[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return offsets;
}

}  // namespace unroll::reference
