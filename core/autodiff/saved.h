// SPDX-License-Identifier: Apache-2.0
// Selects the values that the forward pass saves for the backward pass: the fewest bytes from which it can recompute
// the rest.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// `used` must be had again later. `available` values are at hand anyway; results of cheap and free ops may be computed
// again from their operands; everything else (inputs, results of reductions and expensive ops) must be saved. Returns
// the set of fewest bytes, in node order; of equal sets the one nearest to the inputs: tanh(x) is kept and not 1 -
// tanh(x)^2. `constant` are available values that are the same in every step. Results of expensive elementwise ops may
// be computed again where they are much larger than what they come from besides constants: the tanh of additive
// attention, [S,A] from keys [S,A] and the query [A] of a step.
std::vector<ValueId> choose_saved(const Graph& graph, std::span<const ValueId> used, std::span<const ValueId> available,
                                  std::span<const ValueId> constant = {});
// The same with another idea of what may be computed again; inputs never may.
using MayRecompute = std::function<bool(const Node&)>;
std::vector<ValueId> choose_saved(const Graph& graph, std::span<const ValueId> used,
                                  std::span<const ValueId> available, const MayRecompute& may_recompute);

}  // namespace unroll
