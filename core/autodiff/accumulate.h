// SPDX-License-Identifier: Apache-2.0
// Accumulates cotangents of an operand, and reverses broadcasting.
#pragma once

#include <span>

#include "unroll/ir/graph.h"

namespace unroll {

// Sums `d` over what broadcasting repeated: from the shape of a result to the shape of an operand.
Value unbroadcast(Value d, const Shape& shape);

// The sum of at least one contribution to one value. Contributions that are pads along one axis (gradients of
// slices) and cover the value exactly, as those of gates do, become one concat instead of zeros and additions.
Value sum_contributions(std::span<const Value> contributions);

}  // namespace unroll
