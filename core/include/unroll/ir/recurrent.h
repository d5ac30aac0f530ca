// SPDX-License-Identifier: Apache-2.0
// The composite ops rnn, gru and lstm. Letters: T time, B batch, I input, H hidden, P output of a layer (projection,
// or H), L layers, D directions, G gates.
#pragma once

#include <cstdint>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Parameters have PyTorch's layouts: weight [G*H, in], gate order i f g o (lstm) and r z n (gru).
struct RecurrentOptions {
  std::int64_t hidden = 0;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;
  double dropout = 0;         // between layers; requires key
  std::int64_t rng_stream = 0;      // RNG stream of the dropout
  bool relu = false;          // rnn: relu instead of tanh
  bool reset_after = true;    // gru: n = tanh(W x + b + r * (W h + b)); false: n = tanh(W x + b + W (r * h) + b)
  std::int64_t projection = 0;  // lstm: h = W_hr * (o * tanh(c)); 0: none
  bool peephole = false;        // lstm: i and f read the previous cell state, o the new one (Gers et al. 2002)
};
struct RecurrentInputs {
  Value x;        // [T, B, I]
  Value h0;       // [L*D, B, P]
  Value c0;       // lstm: [L*D, B, H]
  Value lengths;  // optional i32 [B]
  Value key;      // i32 [3], if dropout > 0
  // For each layer and direction: weight_ih [G*H, in], weight_hh [G*H, P], [bias_ih, bias_hh [G*H]], [weight_hr [P,
  // H]], [weight_ci, weight_cf, weight_co [H]].
  std::vector<Value> parameters;
};
struct RecurrentResult {
  Value y;   // [T, B, D*P]; zero at t >= lengths[b]
  Value hn;  // [L*D, B, P]
  Value cn;  // lstm: [L*D, B, H]
};
UNROLL_API RecurrentResult recurrent(Op cell, const RecurrentInputs& inputs, const RecurrentOptions& options);

}  // namespace unroll
