// SPDX-License-Identifier: Apache-2.0
// Replaces loops that compute a composite by that composite, so that a backend may claim it and all forms of a cell
// have the same plan. Differentiation does the same (autodiff/rules_scan.cc), so forward and gradient stay a pair.
#include "core/ir/match/recognize.h"

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace unroll {

namespace {

std::vector<Value> recognize_loop(const RewriteNode& at, PassLog* log) {
  if (at.node.op != Op::scan) return {};
  const auto composite = recognize_scan(at.source, at.node);
  if (!composite) return {};
  const InLoop in_loop(log, at.source, at.node);
  for (const Node& node : composite->nodes())
    if (log && op_info(node.op).kind == OpKind::composite) log->add("recognized " + node_text(node));
  return inline_graph(at.target, *composite, at.operands);
}

}  // namespace

std::shared_ptr<const Graph> recognize(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [log](const Graph& g) -> std::shared_ptr<const Graph> {
    return rewrite(g, [log](const RewriteNode& at) { return recognize_loop(at, log); });
  }, log);
}

}  // namespace unroll
