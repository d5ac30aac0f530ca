// SPDX-License-Identifier: Apache-2.0
// Computes one node of a scan body for all steps at once.
#pragma once

#include <optional>
#include <span>

#include "unroll/ir/graph.h"

namespace unroll {

// A body value outside the loop: the same in every step, or stacked [T, ...].
struct Batched {
  Value value;
  bool stacked = false;
};

// The node over whole sequences; at least one operand is stacked, and so is the result. Nothing for ops that have no
// batched form (scans, draws, scatters, transposed stacks beyond rank 6).
std::optional<Value> batch_step(Graph& target, const Node& node, std::span<const Batched> operands, std::int64_t steps);

}  // namespace unroll
