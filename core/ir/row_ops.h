// SPDX-License-Identifier: Apache-2.0
// What may be in the body of a row group: ops whose row l depends on row l of their operands alone. The last axis is
// the row, [L, W]; values of rank 0 and 1 are the same for every row. No value is empty.
#pragma once

#include "unroll/graph.h"

namespace unroll {

inline bool is_for_every_row(const Shape& shape) { return shape.rank() <= 1; }
inline Shape leading_axes(const Shape& shape) { return shape.removed(shape.rank() - 1); }
// Elementwise ops, and broadcast, slice, pad, concat, reduce_sum and reduce_max (kept) of the last axis, on values with
// rows.
bool is_row_op(const Graph& graph, const Node& node);

}  // namespace unroll
