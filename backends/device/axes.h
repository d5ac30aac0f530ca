// SPDX-License-Identifier: Apache-2.0
// Axes of values as kernels get them.
#pragma once

#include <cstdint>
#include <vector>

namespace unroll::device {

// Axes with their strides in one or more operands; neighbors that every operand walks as one are joined.
struct Axes {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> strides;  // [operand][axis]
};
inline Axes joined_axes(const std::vector<std::int64_t>& sizes,
                        const std::vector<std::vector<std::int64_t>>& strides) {
  Axes out;
  out.strides.resize(strides.size());
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    bool joins = !out.sizes.empty();
    for (std::size_t k = 0; joins && k < strides.size(); ++k)
      joins = out.strides[k].back() == strides[k][axis] * sizes[axis];
    if (joins) {
      out.sizes.back() *= sizes[axis];
      for (std::size_t k = 0; k < strides.size(); ++k) out.strides[k].back() = strides[k][axis];
    } else {
      out.sizes.push_back(sizes[axis]);
      for (std::size_t k = 0; k < strides.size(); ++k) out.strides[k].push_back(strides[k][axis]);
    }
  }
  return out;
}

}  // namespace unroll::device
