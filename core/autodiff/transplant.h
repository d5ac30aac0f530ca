// SPDX-License-Identifier: Apache-2.0
// Copies the part of a graph that some values need into another graph, up to given values.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// The values of `stops` that are met on the way from `wanted` to the sources of the graph, in node order.
std::vector<ValueId> frontier(const Graph& source, std::span<const ValueId> wanted, std::span<const ValueId> stops);

// Appends to `target` a copy of what `wanted` needs, with given.at(v) standing for v; returns what `wanted` became.
// Every input of `source` that is met must be given.
std::vector<Value> transplant(Graph& target, const Graph& source, std::span<const ValueId> wanted,
                              std::map<ValueId, Value> given);

}  // namespace unroll
