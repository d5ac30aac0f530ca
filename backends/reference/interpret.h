// SPDX-License-Identifier: Apache-2.0
// Interprets a plan node by node. Simple and slow on purpose: it defines the meaning of a plan.
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

// Arena bytes start as 0xFF, a NaN in floats, so that reads before writes show. Adds the time of each node to
// `milliseconds`, unless it is empty.
void interpret(const Plan& plan, const Frame& frame, std::span<double> milliseconds = {});

}  // namespace unroll::reference
