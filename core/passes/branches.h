// SPDX-License-Identifier: Apache-2.0
// Branches: parts of a graph around loops that do not depend on each other, such as the two directions of a layer,
// which a backend with several threads may run side by side. Loops with equally many loops on the longest path to them
// are independent. Each begins a branch, to which belongs what only it needs or what needs nothing but it: the product
// of the input before the loop, the weight gradients after it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "unroll/backend.h"

namespace unroll {

// Of a node: which fork it is in and which of its branches; -1 for neither. Forks can run in the order of their
// numbers.
struct BranchOf {
  std::int32_t fork = -1, branch = -1;
  friend bool operator==(const BranchOf&, const BranchOf&) = default;
};
// [node]. Says nothing of the order of nodes.
std::vector<BranchOf> find_branches(const Graph& graph);

// The forks whose nodes are neighbours, branch after branch.
std::vector<Fork> neighbouring_branches(const Graph& graph);

}  // namespace unroll
