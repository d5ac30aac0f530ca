// SPDX-License-Identifier: Apache-2.0
// Finds the values through which a gradient can flow: those that depend on some values and lead to others.
#pragma once

#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

class ValueSet {
 public:
  explicit ValueSet(const Graph& graph);
  bool contains(ValueId id) const {
    return nodes_[id.node][id.output];
  }
  void insert(ValueId id) { nodes_[id.node][id.output] = true; }

 private:
  std::vector<std::vector<bool>> nodes_;  // [node][output], as the graph was when the set was made
};

// Values of a float dtype that depend on one of `from`, and `from` itself; stop_gradient ends a path.
ValueSet reached_from(const Graph& graph, std::span<const ValueId> from);
// Values of a float dtype that one of `to` depends on, and `to` itself; stop_gradient ends a path.
ValueSet leading_to(const Graph& graph, std::span<const ValueId> to);

}  // namespace unroll
