// SPDX-License-Identifier: Apache-2.0
// Checks that a run fits into memory.
#pragma once

#include <cstddef>

#include "unroll/passes/backend.h"
#include "unroll/train/trainer.h"

namespace unroll {

std::size_t constant_bytes(const Plan& plan);
// Part of the arena: loop outputs that a loop in the other direction reads.
std::size_t saved_values_bytes(const Plan& plan);

// Bytes that a run on the backend may allocate: those of the device, or what is free on the host; 0: unknown.
std::size_t memory_for(const Backend& backend);

// Sorts the parts, adds them up, and throws Error(memory) naming the largest when they are more than `limit` (0: any).
void require_memory(RunEstimate& estimate, std::size_t limit);

}  // namespace unroll
