// SPDX-License-Identifier: Apache-2.0
// Unchecked write access to a graph, for tests of the verifier and for passes that mark nodes.
#pragma once

#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

struct GraphEdit {
  static std::vector<Node>& nodes(Graph& graph) { return graph.nodes_; }
  static std::vector<NamedValue>& inputs(Graph& graph) { return graph.inputs_; }
  static std::vector<NamedValue>& outputs(Graph& graph) { return graph.outputs_; }
};

}  // namespace unroll
