// SPDX-License-Identifier: Apache-2.0
// Rewrites slice(f(a, b)) to f(slice(a), slice(b)) if f is elementwise and only slices read it (the gates of a cell).
// One fusion group then extends from the products to the states.
//
// raise_reshapes: f(input, reshape(x)) becomes reshape(f(reshape(input), x)) if f and what makes x are elementwise and
// the reshape only adds or drops axes of size 1: f then joins the group that makes x. A sum [S,A] that a loop keeps in
// a state thus takes up its terms, [1,S,A], where they are computed. The reshape of an input is a view of it.
#include <algorithm>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// Elementwise nodes that are read by slices along one axis and by nothing else.
std::vector<bool> only_sliced(const Graph& graph) {
  const auto nodes = graph.nodes();
  std::vector<bool> sliced(nodes.size(), false), other(nodes.size(), false);
  for (const Node& node : nodes)
    for (const ValueId& id : node.inputs)
      (node.op == Op::slice ? sliced : other)[id.node] = true;
  for (const NamedValue& output : graph.outputs()) other[output.value.node] = true;
  for (std::size_t i = 0; i < nodes.size(); ++i) sliced[i] = sliced[i] && !other[i] && is_elementwise(nodes[i].op);
  return sliced;
}

// The part of a broadcast operand that the slice of the result reads.
Value slice_operand(Value x, const Shape& result, std::int64_t axis, std::int64_t start, std::int64_t size) {
  const int own = static_cast<int>(axis) - (result.rank() - x.rank());
  return own < 0 || x.shape()[own] == 1 ? x : slice(x, own, start, size);
}

std::shared_ptr<const Graph> sink(const Graph& graph, const std::vector<bool>& candidates) {
  return rewrite(graph, [&](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op != Op::slice || !candidates[at.node.inputs[0].node]) return {};
    const Node whole = at.operands[0].node();  // a copy: appending moves the nodes
    const auto axis = at.node.attributes.get<std::int64_t>("axis");
    std::vector<Value> operands;
    for (const ValueId& id : whole.inputs)
      operands.push_back(slice_operand(at.target.value(id), whole.outputs[0].shape, axis,
                                       at.node.attributes.get<std::int64_t>("start"),
                                       at.node.attributes.get<std::int64_t>("size")));
    const Value part = at.target.append_one(whole.op, operands, whole.attributes);
    // Size 1 along the axis: every operand may have been broadcast there.
    return {broadcast(part, at.node.outputs[0].shape)};
  });
}

// The axes other than those of size 1.
Ints real_axes(const Shape& shape) {
  Ints axes;
  for (const std::int64_t size : shape)
    if (size != 1) axes.push_back(size);
  return axes;
}

// The operand of f that is such a reshape: its index, or -1.
int reshaped_operand(const RewriteNode& at) {
  const Shape& shape = at.node.outputs[0].shape;
  int found = -1, inputs = 0;
  for (std::size_t k = 0; k < at.operands.size(); ++k) {
    const Node& node = at.operands[k].node();
    if (node.op == Op::input && at.operands[k].shape() == shape) {
      ++inputs;
      continue;
    }
    if (node.op != Op::reshape || at.operands[k].shape() != shape || found >= 0) return -1;
    const Value x = at.target.value(node.inputs[0]);
    const bool fits = x.rank() >= 2 && shape.rank() >= 2 && x.shape()[x.rank() - 1] == shape[shape.rank() - 1] &&
                      real_axes(x.shape()) == real_axes(shape);
    if (!fits || !is_elementwise(x.node().op)) return -1;
    found = static_cast<int>(k);
  }
  return inputs > 0 ? found : -1;
}

}  // namespace

std::shared_ptr<const Graph> sink_slices(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) -> std::shared_ptr<const Graph> {
    // Each round moves slices past one more layer of elementwise ops and removes that layer, so this ends.
    std::shared_ptr<const Graph> result = copy_graph(g);
    for (auto candidates = only_sliced(*result);
         std::find(candidates.begin(), candidates.end(), true) != candidates.end(); candidates = only_sliced(*result))
      result = drop_dead(*sink(*result, candidates));
    return result;
  });
}

std::shared_ptr<const Graph> raise_reshapes(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) -> std::shared_ptr<const Graph> {
    return rewrite(g, [](const RewriteNode& at) -> std::vector<Value> {
      const int k = is_elementwise(at.node.op) ? reshaped_operand(at) : -1;
      if (k < 0) return {};
      const Value x = at.target.value(at.operands[k].node().inputs[0]);
      std::vector<Value> operands;
      for (std::size_t i = 0; i < at.operands.size(); ++i)
        operands.push_back(static_cast<int>(i) == k ? x : reshape(at.operands[i], x.shape()));
      return {reshape(at.target.append_one(at.node.op, operands, at.node.attributes), at.node.outputs[0].shape)};
    });
  });
}

}  // namespace unroll
