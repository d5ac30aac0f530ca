// SPDX-License-Identifier: Apache-2.0
// Short words for types and nodes of small graphs.
#pragma once

#include <algorithm>

#include "unroll/ir/graph.h"

namespace unroll::testing {

constexpr Type f32(Shape shape) { return {DType::f32, shape}; }

// Nodes with the op, without those of bodies.
inline int count(const Graph& graph, Op op) {
  const auto nodes = graph.nodes();
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.op == op; }));
}

}  // namespace unroll::testing
