// SPDX-License-Identifier: Apache-2.0
// What may be in the body of a fused reduction: ops whose row l depends on one row of each operand alone. The last axis
// is the row, [L, W]; rows of an elementwise operand repeat along leading axes that it lacks or where it has size 1, so
// that values of rank 0 and 1 are the same for every row. No value is empty.
#pragma once

#include "unroll/ir/graph.h"

namespace unroll {

inline Shape leading_axes(const Shape& shape) { return shape.removed(shape.rank() - 1); }
// Whether the rows of `from` are those of `to`, or repeat among them.
bool repeats_rows(const Shape& from, const Shape& to);
// Elementwise ops, and broadcast, slice, pad, concat, reduce_sum and reduce_max (kept) of the last axis, on values with
// rows.
bool is_row_op(const Graph& graph, const Node& node);

}  // namespace unroll
