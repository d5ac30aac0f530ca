// SPDX-License-Identifier: Apache-2.0
// Selects the values that the forward pass saves for the backward pass: the fewest bytes from which it can recompute
// the rest.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// `used` must be had again later. `available` values are at hand anyway; results of cheap and free ops may be computed
// again from their operands; everything else (inputs, results of reductions and expensive ops) must be saved. Returns
// the set of fewest bytes, in node order; of equal sets the one nearest to the inputs: tanh(x) is kept and not 1 -
// tanh(x)^2.
std::vector<ValueId> choose_saved(const Graph& graph, std::span<const ValueId> used,
                                  std::span<const ValueId> available);
// The same with another idea of what may be computed again; inputs never may.
using MayRecompute = std::function<bool(const Node&)>;
std::vector<ValueId> choose_saved(const Graph& graph, std::span<const ValueId> used,
                                  std::span<const ValueId> available, const MayRecompute& may_recompute);

}  // namespace unroll
