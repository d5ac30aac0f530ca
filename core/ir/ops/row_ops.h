// SPDX-License-Identifier: Apache-2.0
// Row ops, of which the body of a fused reduction consists: row l depends on one row of each operand alone. The last
// axis is the row, [L, W]. Rows of an elementwise operand repeat along leading axes that it lacks or that have size 1,
// so values of rank 0 and 1 are the same for every row. No value is empty.
#pragma once

#include "unroll/ir/graph.h"

namespace unroll {

inline Shape leading_axes(const Shape& shape) { return shape.removed(shape.rank() - 1); }
// True if the rows of `from` are those of `to`, or repeat among them.
bool repeats_rows(const Shape& from, const Shape& to);
// Elementwise ops, and broadcast, slice, pad, concat, reduce_sum and reduce_max (kept) of the last axis, on values with
// rows.
bool is_row_op(const Graph& graph, const Node& node);

}  // namespace unroll
