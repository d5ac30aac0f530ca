// SPDX-License-Identifier: Apache-2.0
// Branches are independent parts of a graph around loops, such as the two directions of a layer. A backend with several
// threads may run them in parallel. Two loops are independent if the longest paths to them contain equally many loops.
// A branch consists of a loop and the nodes that only this loop needs, or that need only this loop: the product of the
// input before it, and the weight gradients after it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll {

// The fork of a node and its branch there; -1 for none. Forks can run in the order of their
// numbers.
struct BranchOf {
  std::int32_t fork = -1, branch = -1;
  friend bool operator==(const BranchOf&, const BranchOf&) = default;
};
// [node]. Says nothing of the order of nodes.
std::vector<BranchOf> find_branches(const Graph& graph);

// The graph with its nodes in this order, in which operands come first.
std::shared_ptr<const Graph> in_order(const Graph& graph, const std::vector<std::size_t>& order);

// The forks whose nodes are neighbors, branch after branch.
std::vector<Fork> neighboring_branches(const Graph& graph);

}  // namespace unroll
