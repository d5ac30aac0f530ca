// SPDX-License-Identifier: Apache-2.0
#include "unroll/ir/strided_read.h"

#include <vector>

namespace unroll {

namespace {

// The strides of the same elements in another shape; nullopt if an axis of y has elements that are not evenly apart.
std::optional<Ints> reshaped(const Shape& x, std::span<const std::int64_t> strides, const Shape& y) {
  struct Run {
    std::int64_t size, step;
  };
  std::vector<Run> runs;  // axes of x that are one after the other in memory; the last axes first
  for (int d = x.rank() - 1; d >= 0; --d) {
    if (x[d] == 1) continue;
    if (!runs.empty() && strides[d] == runs.back().step * runs.back().size) runs.back().size *= x[d];
    else runs.push_back({x[d], strides[d]});
  }
  Ints made(y.rank(), 0);
  Run left{1, 1};
  auto next = runs.begin();
  for (int d = y.rank() - 1; d >= 0; --d) {
    if (y[d] == 1) continue;
    if (left.size == 1) left = *next++;
    if (left.size % y[d] != 0) return std::nullopt;
    made[d] = left.step;
    left = {left.size / y[d], left.step * y[d]};
  }
  return made;
}

}  // namespace

Ints row_major_strides(const Shape& shape) {
  Ints strides(shape.rank());
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; stride *= shape[i--]) strides[i] = stride;
  return strides;
}

std::optional<StridedRead> strided_read(const Node& node, const Shape& x, std::span<const std::int64_t> strides) {
  const auto integer = [&](std::string_view name) { return node.attributes.get<std::int64_t>(name); };
  if (node.op == Op::reshape) {
    if (x.elements() == 0) return std::nullopt;
    auto made = reshaped(x, strides, node.outputs[0].shape);
    return made ? std::optional(StridedRead{0, std::move(*made)}) : std::nullopt;
  }
  StridedRead read{0, Ints(strides.begin(), strides.begin() + x.rank())};
  switch (node.op) {
    case Op::slice:
      read.start = integer("start") * strides[integer("axis")];
      return read;
    case Op::transpose: {
      const Ints& permutation = node.attributes.get<Ints>("permutation");
      for (int d = 0; d < x.rank(); ++d) read.strides[d] = strides[permutation[d]];
      return read;
    }
    case Op::broadcast: {
      const int missing = node.outputs[0].shape.rank() - x.rank();
      read.strides.assign(node.outputs[0].shape.rank(), 0);
      for (int d = 0; d < x.rank(); ++d)
        if (x[d] != 1) read.strides[d + missing] = strides[d];
      return read;
    }
    case Op::windows: {
      const std::int64_t step = strides[integer("axis")];
      read.strides[integer("axis")] = step * integer("stride");
      read.strides.insert(read.strides.end() - 1, step * integer("dilation"));
      return read;
    }
    default: return std::nullopt;
  }
}

}  // namespace unroll
