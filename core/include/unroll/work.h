// SPDX-License-Identifier: Apache-2.0
// How much there is to do in a node, as the graph says it, whatever a backend makes of it.
#pragma once

#include "unroll/graph.h"

namespace unroll {

struct NodeWork {
  double flop = 0;   // a multiply-add counts two; an element of any other op, computed or summed, one; moves none
  double bytes = 0;  // operands read and results written, each once; of a loop's states, none
};
// A loop counts all steps of its body (lengths are not known here), a composite its body in plain ops.
UNROLL_API NodeWork node_work(const Graph& graph, const Node& node);
// The sum of all nodes' flop, and of products alone.
UNROLL_API double graph_flop(const Graph& graph);
UNROLL_API double matmul_flop(const Graph& graph);

}  // namespace unroll
