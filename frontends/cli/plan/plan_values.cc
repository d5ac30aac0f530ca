// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/plan/plan_values.h"

#include <numeric>
#include <set>

namespace unroll::cli {

PlanValues::PlanValues(const Graph& graph) : graph_(graph) {
  for (const Node& node : graph.nodes()) {
    const auto id = static_cast<std::int32_t>(first_.size());
    first_.push_back(size());
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k) {
      nodes_.push_back(id);
      needs_.push_back(needs_of(node, k));
    }
  }
  users_.resize(needs_.size());
  for (int v = 0; v < size(); ++v)
    for (const int from : needs(v)) users_[static_cast<std::size_t>(from)].push_back(v);
}

std::vector<int> PlanValues::siblings(int v) const {
  std::vector<int> all(node(v).outputs.size());
  std::iota(all.begin(), all.end(), first_[static_cast<std::size_t>(node_id(v))]);
  return all;
}

std::int64_t PlanValues::elements(int v) const {
  const std::int32_t id = node_id(v);
  return graph_.type({id, v - first_[static_cast<std::size_t>(id)]}).shape.elements();
}

Flags PlanValues::closure(std::vector<int> open, const std::vector<std::vector<int>>& next) const {
  Flags seen(needs_.size());
  while (!open.empty()) {
    const auto v = static_cast<std::size_t>(open.back());
    open.pop_back();
    if (seen[v]) continue;
    seen[v] = 1;
    open.insert(open.end(), next[v].begin(), next[v].end());
  }
  return seen;
}

std::vector<int> PlanValues::needs_of(const Node& node, std::int32_t output) const {
  std::set<int> needs;
  if (node.op != Op::fused && node.op != Op::row_group) {
    for (const ValueId input : node.inputs) needs.insert(of(input));
  } else {
    const PlanValues body(*node.body);
    const Flags used = body.ancestors({body.of(node.body->outputs()[static_cast<std::size_t>(output)].value)});
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (is_set(used, body.of(node.body->inputs()[i].value))) needs.insert(of(node.inputs[i]));
  }
  return {needs.begin(), needs.end()};
}

}  // namespace unroll::cli
