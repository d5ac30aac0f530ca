// SPDX-License-Identifier: Apache-2.0
// Gradient clipping as nodes of the update graph.
#pragma once

#include <span>
#include <vector>

#include "unroll/graph.h"
#include "unroll/trainer.h"

namespace unroll {

// sqrt(sum of squares of all gradients), a scalar.
Value global_norm(std::span<const Value> gradients);

// The gradients after all limits; `norm` is their global_norm before any. Gradient i is of parameter i and has its
// type.
std::vector<Value> clipped(std::vector<Value> gradients, std::span<const Value> parameters, Value norm,
                           const ClipOptions& options);

}  // namespace unroll
