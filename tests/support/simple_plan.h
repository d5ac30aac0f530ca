// SPDX-License-Identifier: Apache-2.0
// A planner without a single idea, to check the real one against: nodes in their order, a place of its own for
// every value, every output copied at the end.
#pragma once

#include <memory>

#include "unroll/passes/backend.h"
#include "unroll/support/tensor.h"

namespace unroll::testing {

// The graph must hold no composite and no gradient node.
std::shared_ptr<const Plan> simple_plan(std::shared_ptr<const Graph> graph);

// Compiles and runs a plan with inputs by name.
TensorMap run_plan(const std::shared_ptr<const Plan>& plan, Backend& backend, const TensorMap& inputs);

}  // namespace unroll::testing
