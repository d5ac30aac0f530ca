// SPDX-License-Identifier: Apache-2.0
// Strides of operands.
#pragma once

#include <array>
#include <cstdint>

#include "unroll/support/types.h"

namespace unroll::common {

// Strides in elements, one per dimension; unused dimensions are 0.
using Strides = std::array<std::int64_t, Shape::k_max_rank>;
Strides dense_strides(const Shape& shape);
// Returns strides that read `from` as if it had shape `to` (NumPy broadcasting): 0 for repeated axes.
Strides broadcast_strides(const Shape& from, const Shape& to);

}  // namespace unroll::common
