// SPDX-License-Identifier: Apache-2.0
// Everything that changes between updates besides the batch, in one small input. A device can record the rest of an
// update once.
#pragma once

#include <cstdint>

#include "unroll/ir/ops.h"
#include "unroll/support/tensor.h"

namespace unroll {

struct UpdateNumbers {
  double lr = 0, average_rate = 1;
  std::uint64_t seed = 0;
  std::int64_t draw = 0;    // counts batches: each has its own random numbers
  std::int64_t update = 0;  // from 1
  bool asked = false;       // to stop
};

// f32 [11]: lr, average_rate, then the upper halves (16 bits, exact in f32) of four words: the seed's low and high
// word, draw and update; then their lower halves, and whether this rank was asked to stop.
inline constexpr const char* k_control = "trainer.control";
Tensor control_of(const UpdateNumbers& numbers);
// The random key of a draw, i32 [3], for graphs without that input.
Tensor key_of(std::uint64_t seed, std::int64_t draw);

// The numbers in a graph that has the input k_control from then on.
struct Control {
  explicit Control(Graph& graph);
  Value lr, average_rate, asked;  // f32 []
  Value key;               // i32 [3]: seed low, seed high, draw
  Value update;            // i32 []
};

}  // namespace unroll
