// SPDX-License-Identifier: Apache-2.0
#include "backends/common/strides.h"

namespace unroll::common {

Strides dense_strides(const Shape& shape) { return broadcast_strides(shape, shape); }

Strides broadcast_strides(const Shape& from, const Shape& to) {
  Strides strides{};
  std::int64_t stride = 1;
  for (int i = from.rank() - 1; i >= 0; --i) {
    const int axis = to.rank() - from.rank() + i;
    strides[axis] = from[i] == 1 ? 0 : stride;
    stride *= from[i];
  }
  return strides;
}

}  // namespace unroll::common
