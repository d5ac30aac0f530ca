// SPDX-License-Identifier: Apache-2.0
// Pooling of recurrent outputs over time to one vector per sequence.
#pragma once

#include <string>

#include "unroll/model/model.h"

namespace unroll {

struct Pooled {
  Value output;   // [B,D*P]
  Value weights;  // of attention: [T,B], summing to 1 per sequence; otherwise empty
};
// Pools y [T,B,D*P] of sequences with `lengths` i32 [B], or of T steps each without it.
//   final      the forward output at the last step and, if bidirectional, the backward output at the first step
//   mean, max  over the steps of each sequence
//   attention  the mean weighted by softmax over the steps of w . tanh(W y + b) (Yang et al. 2016, eq. 5 to 7);
//              parameters "attention.*", "score.weight"
// A sequence of length 0 gives zeros. Throws Error(usage) on another name.
Pooled pooled(const Scope& scope, Value y, const std::string& how, bool bidirectional, Value lengths = {});

// Computes one answer per sequence of x [T,B,I]: the layers "recurrent.*", their pooled outputs, dropout in training,
// and a linear layer "output.*". Returns [B,n].
Value sequence_answers(Scope& scope, Value x, const RecurrentModelOptions& model, const std::string& pooling,
                       std::int64_t n);

// Returns t < lengths[b], b8 [T,B].
Value live_steps(Value lengths, std::int64_t steps);

}  // namespace unroll
