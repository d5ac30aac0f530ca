// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/lower_masks.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

std::shared_ptr<const Graph> lower_scan_masks(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) -> std::shared_ptr<const Graph> {
    return rewrite(g, [](const RewriteNode& at) -> std::vector<Value> {
      if (at.node.op != Op::scan) return {};
      const ScanLayout l = scan_layout(at.node);
      if (!l.has_lengths && !l.has_reset) return {};
      const auto copy = copy_node(at, at.node.body);
      return lower_masks(at.target, copy[0].id().node);
    });
  });
}

}  // namespace unroll
