// SPDX-License-Identifier: Apache-2.0
// The families of cases; all_cases() is their concatenation.
#pragma once

#include <vector>

#include "tests/support/cases.h"

namespace unroll::testing {

using Cases = std::vector<Case>;

void add_elementwise_cases(Cases& cases);
void add_move_cases(Cases& cases);
void add_linear_cases(Cases& cases);
void add_reduce_cases(Cases& cases);
void add_index_cases(Cases& cases);
void add_scan_cases(Cases& cases);
void add_recurrent_cases(Cases& cases);
void add_convolution_cases(Cases& cases);
void add_layer_cases(Cases& cases);
void add_attention_cases(Cases& cases);
void add_loss_cases(Cases& cases);
void add_optimizer_cases(Cases& cases);
void add_half_cases(Cases& cases);

// Numbers that keep at least `margin` from zero, on a grid; used where a function has a kink at 0.
inline Range off_zero(double margin = 0.125) {
  return {.low = -16 * margin, .high = 14 * margin, .grid = 2 * margin, .phase = margin};
}
inline Range between(double low, double high) { return {.low = low, .high = high}; }
inline Range specials() { return {.special = true}; }

constexpr Agreement k_exact{Rule::exact, 1};

}  // namespace unroll::testing
