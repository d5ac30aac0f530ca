// SPDX-License-Identifier: Apache-2.0
// The equations of rnn, gru and lstm: from the pre-activations of the gates to the new state. The composites of these
// names and the cells of models use them; custom cells may too. s is the logistic function, * elementwise. All values
// are [B, H], of one float dtype.
#pragma once

#include <functional>

#include "unroll/ir/graph.h"

namespace unroll {

// Transforms one value of a cell, such as by dropout. Empty: the identity.
using CellHook = std::function<Value(Value)>;

// h' = tanh(sum), or relu(sum)  (Elman 1990)
UNROLL_API Value rnn_state(Value sum, bool use_relu = false);

// r = s(x_r + h_r);  z = s(x_z + h_z);  n = d(tanh(x_n + recurrent(r)));  h' = (1 - z) * n + z * h  (Cho et al. 2014)
// x: the parts r, z, n of the input; gates: the parts r, z of the recurrent product; biases included. recurrent(r) is
// r * (U_n h + b_n) in the form of cuDNN and PyTorch, and U_n (r * h) + b_n in the original one.
UNROLL_API Value gru_state(ValueList x, ValueList gates, Value h, const CellHook& recurrent, const CellHook& d = {});

// c' = s(f) * c + s(i) * d(tanh(g));  h' = p(s(o) * tanh(c'))
// (Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000)
struct LstmVariant {
  Value w_ci{}, w_cf{}, w_co{};  // [H], peepholes (Gers et al. 2002): i += w_ci * c; f += w_cf * c; o += w_co * c'
  CellHook d{};                  // dropout of the candidate state (Semeniuta et al. 2016)
  CellHook p{};                  // projection to [B, P] (Sak et al. 2014)
};
struct LstmState {
  Value h, c;
};
// gates i, f, g, o
UNROLL_API LstmState lstm_state(ValueList gates, Value c, const LstmVariant& variant = {});

}  // namespace unroll
