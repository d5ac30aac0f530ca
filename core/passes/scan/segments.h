// SPDX-License-Identifier: Apache-2.0
// Moves products that were computed for all steps at once into the steps of a loop, for gradient checkpointing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/passes/rewrite.h"

namespace unroll {

// The same loop with products of all steps among its sequences made in its steps; empty where there are none.
std::vector<Value> products_into_steps(const RewriteNode& at);
// The graph with the products behind the backward loop `loop` made in its steps; null where there are none.
std::shared_ptr<const Graph> products_behind_into_steps(const Graph& graph, std::int32_t loop);

}  // namespace unroll
