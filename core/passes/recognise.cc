// SPDX-License-Identifier: Apache-2.0
// Loops that compute a composite become that composite, so that a backend may claim it and all forms of one cell have
// one plan. Differentiation does the same (autodiff/rules_scan.cc), so forward and gradient stay a pair.
#include "core/ir/recognise.h"

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"

namespace unroll {

std::shared_ptr<const Graph> recognise(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) -> std::shared_ptr<const Graph> {
    return rewrite(g, [](const RewriteNode& at) -> std::vector<Value> {
      if (at.node.op != Op::scan) return {};
      const auto composite = recognise_scan(at.source, at.node);
      return composite ? inline_graph(at.target, *composite, at.operands) : std::vector<Value>{};
    });
  });
}

}  // namespace unroll
