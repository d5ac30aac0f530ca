// SPDX-License-Identifier: Apache-2.0
// live[t,b] = t < lengths[b]. With the step function f: s' = live ? f(reset ? 0 : s) : s, y = live ? y : 0. A row that
// is not live has no effect, so it does not matter that f resets it.
#include "core/autodiff/lower_masks.h"

#include <utility>

#include "core/ir/ops/scan_parts.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;

// mask [B] as [B,1,...] so that it broadcasts to a row of `like`.
Value over_rows(Value mask, Value like) {
  Shape shape = mask.shape();
  while (shape.rank() < like.rank()) shape = shape.inserted(shape.rank(), 1);
  return reshape(mask, shape);
}

}  // namespace

std::vector<Value> lower_masks(Graph& graph, std::int32_t id) {
  const Node node = graph.node(id);
  Values out, in;
  for (std::int32_t k = 0; k < std::ssize(node.outputs); ++k) out.push_back(graph.value({id, k}));
  for (const ValueId input : node.inputs) in.push_back(graph.value(input));
  ScanParts parts(node, in);
  if (!parts.lengths && !parts.reset) return out;

  const std::int64_t steps = scan_layout(node).steps;
  const Value lengths = std::exchange(parts.lengths, {}), reset = std::exchange(parts.reset, {});
  ScanBuilder loop(parts);
  Values inputs = loop.add_all(parts, *node.body);
  const Values states(inputs.begin(), inputs.begin() + std::ssize(parts.states));
  Value live;
  if (lengths) live = loop.sequence(less(iota(graph, {steps, lengths.shape()[0]}, 0), lengths));
  if (reset) {
    const Value resets = loop.sequence(reset);
    for (std::size_t i = 0; i < parts.states.size(); ++i)
      inputs[i] = select(over_rows(resets, inputs[i]), scalar_like(inputs[i], 0), inputs[i]);
  }
  Values results = inline_graph(loop.step(), *node.body, inputs);
  for (std::size_t i = 0; live && i < results.size(); ++i)
    results[i] = select(over_rows(live, results[i]), results[i],
                        i < states.size() ? states[i] : scalar_like(results[i], 0));
  return loop.emit(results);
}

}  // namespace unroll
