// SPDX-License-Identifier: Apache-2.0
// Strides of operands.
#pragma once

#include <array>
#include <cstdint>

#include "unroll/support/types.h"

namespace unroll::common {

// In elements, per dimension of the shape they go with; unused dimensions are 0.
using Strides = std::array<std::int64_t, Shape::k_max_rank>;
Strides dense_strides(const Shape& shape);
// Strides that read `from` as if it had shape `to` (NumPy broadcasting): 0 where repeated.
Strides broadcast_strides(const Shape& from, const Shape& to);

}  // namespace unroll::common
