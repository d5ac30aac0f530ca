// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/reach.h"

#include <algorithm>

namespace unroll {

namespace {

bool carries_gradient(const Graph& graph, ValueId id) { return is_float(arithmetic_dtype(graph.type(id).dtype)); }

}  // namespace

ValueSet::ValueSet(const Graph& graph) {
  nodes_.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) nodes_.emplace_back(node.outputs.size(), false);
}

ValueSet reached_from(const Graph& graph, std::span<const ValueId> from) {
  ValueSet set(graph);
  for (const ValueId id : from) set.insert(id);
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes().size()); ++n) {
    const Node& node = graph.node(n);
    if (node.op == Op::stop_gradient) continue;
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return set.contains(id); })) continue;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      if (carries_gradient(graph, {n, k})) set.insert({n, k});
  }
  return set;
}

ValueSet leading_to(const Graph& graph, std::span<const ValueId> to) {
  ValueSet set(graph);
  for (const ValueId id : to) set.insert(id);
  for (auto n = static_cast<std::int32_t>(graph.nodes().size()); n-- > 0;) {
    const Node& node = graph.node(n);
    if (node.op == Op::stop_gradient) continue;
    bool wanted = false;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) wanted |= set.contains({n, k});
    if (!wanted) continue;
    for (const ValueId id : node.inputs)
      if (carries_gradient(graph, id)) set.insert(id);
  }
  return set;
}

}  // namespace unroll
