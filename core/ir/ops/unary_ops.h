// SPDX-License-Identifier: Apache-2.0
// Properties of the elementwise ops with one operand: the columns of UNROLL_UNARY in the op table.
#pragma once

#include <cstdint>

#include "unroll/ir/graph.h"

namespace unroll {

enum class UnaryOperand : std::uint8_t { floats, numbers, any };  // its dtypes

struct UnaryOp {
  Op op;
  UnaryOperand operand;
  bool keeps_zero;  // f(0) = 0
  bool rounds;      // the result is not exact
  double slope;     // the largest |f'(x)|; infinite where it has no bound
};

// Null for an op without such a row.
const UnaryOp* find_unary(Op op);

}  // namespace unroll
