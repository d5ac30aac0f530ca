// SPDX-License-Identifier: Apache-2.0
#include "core/ir/ops/unary_ops.h"

#include <algorithm>
#include <limits>

namespace unroll {

namespace {

// The words of the columns.
constexpr bool zero = true, other = false, exact = false, rounded = true;
constexpr double unbounded = std::numeric_limits<double>::infinity();

constexpr UnaryOp k_unary_rows[] = {
#define UNROLL_OP(...)
#define UNROLL_BINARY(...)
#define UNROLL_COMPOSITE(...)
#define UNROLL_UNARY(name, operand, gradient, cost, at_zero, result, slope) \
  {Op::name, UnaryOperand::operand, at_zero, result, slope},
#include "unroll/ir/op_table.def"
};

}  // namespace

const UnaryOp* find_unary(Op op) {
  const auto found =
      std::find_if(std::begin(k_unary_rows), std::end(k_unary_rows), [&](const UnaryOp& r) { return r.op == op; });
  return found == std::end(k_unary_rows) ? nullptr : found;
}

}  // namespace unroll
