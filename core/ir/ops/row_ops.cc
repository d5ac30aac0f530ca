// SPDX-License-Identifier: Apache-2.0
#include "core/ir/ops/row_ops.h"

#include <algorithm>

namespace unroll {

bool repeats_rows(const Shape& from, const Shape& to) {
  const int missing = to.rank() - from.rank();
  if (missing < 0 || from.elements() == 0) return false;
  for (int axis = 0; axis + 1 < from.rank(); ++axis)
    if (from[axis] != to[axis + missing] && from[axis] != 1) return false;
  return true;
}

bool is_row_op(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1 || node.inputs.empty()) return false;
  const Shape& shape = node.outputs[0].shape;
  if (shape.rank() < 2 || shape.elements() == 0) return false;
  const auto same_rows = [&](const ValueId& id) {
    const Shape& in = graph.type(id).shape;
    return in.rank() == shape.rank() && leading_axes(in) == leading_axes(shape) && in.elements() > 0;
  };
  const auto rows_or_repeated = [&](const ValueId& id) { return repeats_rows(graph.type(id).shape, shape); };
  switch (node.op) {
    case Op::slice:
    case Op::concat:
    case Op::pad:
      return node.attributes.get<std::int64_t>("axis") == shape.rank() - 1 &&
             std::all_of(node.inputs.begin(), node.inputs.end(), same_rows);
    case Op::reduce_sum:
    case Op::reduce_max:
      return !is_half(graph.type(node.inputs[0]).dtype) && same_rows(node.inputs[0]) &&
             node.attributes.get<Ints>("axes") == Ints{shape.rank() - 1};
    case Op::broadcast: return rows_or_repeated(node.inputs[0]);
    default: return is_elementwise(node.op) && std::all_of(node.inputs.begin(), node.inputs.end(), rows_or_repeated);
  }
}

}  // namespace unroll
