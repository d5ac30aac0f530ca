// SPDX-License-Identifier: Apache-2.0
// Operand layouts over an expression's shape, for kernels that serve many shapes.
#pragma once

#include <vector>

#include "backends/common/expression.h"

namespace unroll::common {

// Access to an operand: element by element, one constant element, or a stride per axis.
enum class Walk : char { dense = 'd', scalar = 's', strided = 'x' };
Walk walk_of(const Shape& shape, const Strides& strides);

// Returns the strides of the inputs, then of the results.
std::vector<const Strides*> operands_of(const Expression& expression);

// Joins adjacent axes and drops axes of size 1. Not for row expressions.
Expression simplified(const Expression& expression);

}  // namespace unroll::common
