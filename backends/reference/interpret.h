// SPDX-License-Identifier: Apache-2.0
// Walks a plan node by node. Obvious and slow on purpose: this is what a plan means.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::reference {

// Memory of one run of a plan: one pointer per input and output of plan.graph. An output may share its donor's memory.
struct Frame {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
};

// Arena bytes start as 0xFF, a NaN in floats, so that a value read before it was written shows. `milliseconds`, where
// there are any, gets what each node took added.
void interpret(const Plan& plan, const Frame& frame, std::span<double> milliseconds = {});

}  // namespace unroll::reference
