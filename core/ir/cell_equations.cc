// SPDX-License-Identifier: Apache-2.0
#include "unroll/ir/cell_equations.h"

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

Value through(const CellHook& hook, Value x) { return hook ? hook(x) : x; }
Value seeing(Value gate, Value peephole, Value c) { return peephole ? gate + peephole * c : gate; }

}  // namespace

Value rnn_state(Value sum, bool use_relu) { return use_relu ? relu(sum) : tanh(sum); }

Value gru_state(ValueList x, ValueList gates, Value h, const CellHook& recurrent, const CellHook& d) {
  const Value r = sigmoid(x[0] + gates[0]);
  const Value z = sigmoid(x[1] + gates[1]);
  const Value n = through(d, tanh(x[2] + recurrent(r)));
  return n + z * (h - n);
}

LstmState lstm_state(ValueList gates, Value c, const LstmVariant& variant) {
  const Value i = sigmoid(seeing(gates[0], variant.w_ci, c));
  const Value f = sigmoid(seeing(gates[1], variant.w_cf, c));
  const Value next = f * c + i * through(variant.d, tanh(gates[2]));
  const Value o = sigmoid(seeing(gates[3], variant.w_co, next));
  return {through(variant.p, o * tanh(next)), next};
}

}  // namespace unroll
