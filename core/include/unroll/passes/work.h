// SPDX-License-Identifier: Apache-2.0
// The work of a node according to the graph, independent of the backend.
#pragma once

#include "unroll/ir/graph.h"

namespace unroll {

struct NodeWork {
  double flop = 0;   // multiply-add: 2; each computed or summed element of other ops: 1; moves: 0
  double bytes = 0;  // operands read and results written, once each; without loop states
};
// Counts all steps of a loop (lengths are unknown here), and the ops in the body of a composite.
UNROLL_API NodeWork node_work(const Graph& graph, const Node& node);
// FLOP of all nodes, and of matmuls alone.
UNROLL_API double graph_flop(const Graph& graph);
UNROLL_API double matmul_flop(const Graph& graph);

}  // namespace unroll
