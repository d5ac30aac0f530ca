// SPDX-License-Identifier: Apache-2.0
#include "backends/common/walk.h"

namespace unroll::common {

std::vector<const Strides*> operands_of(const Expression& e) {
  std::vector<const Strides*> all;
  for (const auto& input : e.inputs) all.push_back(&input.strides);
  for (const auto& result : e.results) all.push_back(&result.strides);
  return all;
}

Walk walk_of(const Shape& shape, const Strides& strides) {
  bool dense = true, scalar = true;
  std::int64_t inner = 1;
  for (int axis = shape.rank() - 1; axis >= 0; inner *= shape[axis--]) {
    const std::int64_t stride = strides[axis];
    if (shape[axis] == 1) continue;
    dense = dense && stride == inner;
    scalar = scalar && stride == 0;
  }
  return dense ? Walk::dense : scalar ? Walk::scalar : Walk::strided;
}

Expression simplified(const Expression& e) {
  Expression simple = e;
  std::vector<std::int64_t> sizes;
  std::vector<int> axes;  // kept axes of e, for its strides
  for (int axis = 0; axis < e.shape.rank(); ++axis) {
    if (e.shape[axis] == 1) continue;
    bool joins = !axes.empty();
    for (const Strides* strides : operands_of(e))
      joins = joins && (*strides)[axes.back()] == (*strides)[axis] * e.shape[axis];
    if (joins) {
      sizes.back() *= e.shape[axis];
      axes.back() = axis;
    } else {
      sizes.push_back(e.shape[axis]);
      axes.push_back(axis);
    }
  }
  simple.shape = Shape(std::span<const std::int64_t>(sizes));
  const auto kept = [&](const Strides& strides) {
    Strides out{};
    for (std::size_t k = 0; k < axes.size(); ++k) out[k] = strides[axes[k]];
    return out;
  };
  for (auto& input : simple.inputs) input.strides = kept(input.strides);
  for (auto& result : simple.results) result.strides = kept(result.strides);
  return simple;
}

}  // namespace unroll::common
