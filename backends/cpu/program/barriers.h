// SPDX-License-Identifier: Apache-2.0
// Finds the calls of a program that need a barrier: a thread accesses data that another thread accessed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/program/steps.h"

namespace unroll::cpu {

// Memory that a scan passes from step to step.
struct Loop {
  int n_inputs = 0;  // of the body
  int n_states = 0;  // inputs [0, n_states) read the memory that outputs [0, n_states) wrote one step earlier
  // [output] index of the first output with the same value, which determines its memory.
  std::vector<int> same_as;
  // [output] every step has separate memory.
  std::vector<bool> kept;
};

// [call]: barrier after it. With `loop`, the last call is followed by the first one of the next step.
std::vector<bool> find_barriers(std::span<const std::vector<Access>> calls, const Loop* loop);

}  // namespace unroll::cpu
