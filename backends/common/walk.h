// SPDX-License-Identifier: Apache-2.0
// How operands lie over the shape of an expression: what a kernel that serves many shapes must know of one.
#pragma once

#include <vector>

#include "backends/common/expression.h"

namespace unroll::common {

// How an operand is walked: element by element, not at all, or by a stride per axis.
enum class Walk : char { dense = 'd', scalar = 's', strided = 'x' };
Walk walk_of(const Shape& shape, const Strides& strides);

// Of the inputs, then of the results.
std::vector<const Strides*> operands_of(const Expression& expression);

// The same work with neighboring axes joined and axes of size 1 dropped. Not for row expressions.
Expression simplified(const Expression& expression);

}  // namespace unroll::common
