// SPDX-License-Identifier: Apache-2.0
// Lowers `lengths` and `reset` of a scan to ordinary ops in its body.
#pragma once

#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Appends a scan without lengths and reset that means the same as `node`, a scan node of `graph`, and returns its
// results in the node's order. A scan without them is left alone: its own results are returned.
// Inputs of the new node: states, sequences, [live b8 [T,B]], [reset b8 [T,B]], constants.
std::vector<Value> lower_masks(Graph& graph, std::int32_t node);

}  // namespace unroll
