// SPDX-License-Identifier: Apache-2.0
// Finds the calls of a program that need a barrier: a thread touches data that another thread touched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/program/steps.h"

namespace unroll::cpu {

// How the steps of a scan hand memory on.
struct Loop {
  int n_inputs = 0;  // of the body
  int n_states = 0;  // inputs [0, n_states) are read where outputs [0, n_states) were written one step earlier
  // [output] where it is written: the number of the first output with the same value, whose memory it is.
  std::vector<int> same_as;
  // [output] every step has memory of its own.
  std::vector<bool> kept;
};

// [call]: barrier after it. Not null `loop`: the last call is followed by the first one of the next step.
std::vector<bool> find_barriers(std::span<const std::vector<Access>> calls, const Loop* loop);

}  // namespace unroll::cpu
