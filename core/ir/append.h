// SPDX-License-Identifier: Apache-2.0
// Helpers of the functions of ops.h: appending nodes for given operands.
#pragma once

#include <initializer_list>
#include <utility>

#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

inline void require_first(Op op, Value first) {
  if (!first) throw Error(ErrorKind::usage, op_info(op).name, "operand 0 is empty");
}

// Appends a node of one result to the graph of its first operand.
inline Value append(Op op, std::initializer_list<Value> inputs, Attributes attributes = {}) {
  require_first(op, *inputs.begin());
  return inputs.begin()->graph().append_one(op, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}

// A negative axis counts from the end.
inline int from_end(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

// x where the condition holds, else 0. Times 0 is not enough: 0 * NaN is NaN.
inline Value zero_unless(Value condition, Value x) { return select(condition, x, scalar_like(x, 0)); }

}  // namespace unroll
