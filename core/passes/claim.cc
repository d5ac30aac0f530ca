// SPDX-License-Identifier: Apache-2.0
// Asks the backend for each composite; what it does not take becomes its body in plain ops.
#include <algorithm>
#include <set>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/error.h"

namespace unroll {

namespace {

bool is_composite(const Node& node) { return op_info(node.op).kind == OpKind::composite; }

// Bodies may hold composites again; deeper than this is a cycle of definitions.
constexpr int k_max_expansions = 32;

// Whether `gradient` is the gradient of `forward`: same op, same inputs.
bool is_pair(const Node& forward, const Node& gradient) {
  return gradient.op == Op::gradient && gradient.attributes.get<std::string>("of") == op_info(forward.op).name &&
         gradient.inputs.size() >= forward.inputs.size() &&
         std::equal(forward.inputs.begin(), forward.inputs.end(), gradient.inputs.begin());
}

// Nodes the backend takes. A forward node and its gradients are taken together or not at all: what one implementation
// saves for backward another could not read.
std::set<std::int32_t> claimed_nodes(const Graph& graph, const Backend& backend) {
  std::set<std::int32_t> yes;
  const auto nodes = graph.nodes();
  const auto n = static_cast<std::int32_t>(nodes.size());
  for (std::int32_t i = 0; i < n; ++i)
    if (is_composite(graph.node(i)) && backend.claim(graph, graph.node(i)).yes) yes.insert(i);
  for (std::int32_t g = 0; g < n; ++g) {
    if (graph.node(g).op != Op::gradient) continue;
    bool complete = yes.count(g) > 0;
    std::vector<std::int32_t> group{g};
    for (std::int32_t f = 0; f < n; ++f)
      if (is_composite(graph.node(f)) && is_pair(graph.node(f), graph.node(g))) {
        complete &= yes.count(f) > 0;
        group.push_back(f);
      }
    if (!complete)
      for (const std::int32_t id : group) yes.erase(id);
  }
  return yes;
}

std::shared_ptr<const Graph> claim_once(const Graph& graph, const Backend& backend, bool& changed) {
  const auto yes = claimed_nodes(graph, backend);
  return rewrite(graph, [&](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op == Op::scan) return copy_node(at, claim(*at.node.body, backend));
    if (!is_composite(at.node) || at.node.attributes.get_or<bool>("claimed", false)) return {};
    changed = true;
    if (yes.count(at.id) > 0) {
      Attributes attributes = at.node.attributes;
      attributes.set("claimed", true);
      return at.target.append(at.node.op, at.operands, std::move(attributes));
    }
    return inline_graph(at.target, *composite_body(at.source, at.node), at.operands);
  });
}

}  // namespace

std::shared_ptr<const Graph> claim(const Graph& graph, const Backend& backend) {
  bool changed = false;
  auto result = claim_once(graph, backend, changed);
  for (int i = 0; changed; ++i) {
    if (i == k_max_expansions) throw Error(ErrorKind::internal, "claim", "composites expand into each other without end");
    changed = false;
    result = claim_once(*result, backend, changed);
  }
  return result;
}

}  // namespace unroll
