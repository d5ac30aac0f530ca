// SPDX-License-Identifier: Apache-2.0
// Activations and recurrent operators of ONNX, for the reader and the writer (onnx docs/Operators.md).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/ir/ops.h"

namespace unroll::onnx {

struct Activation {
  std::string_view name;
  int parameters;  // number of parameters: alpha, or alpha and beta
  Value (*apply)(Value x, double alpha, double beta);
  // Defaults of the operator. Recurrent nodes must specify those of Affine, ScaledTanh and ThresholdedRelu: ONNX does
  // not define them there, and ONNX Runtime uses 0.
  double alpha = 0, beta = 0;
};
const Activation* find_activation(std::string_view name);  // ignores case, like ONNX Runtime

struct RecurrentKind {
  std::string name;
  Op op;  // the composite
  int states;
  std::vector<int> order;                // composite gate -> ONNX gate
  std::vector<std::string> activations;  // of one direction
  int gates() const { return static_cast<int>(order.size()); }
};
inline const RecurrentKind k_recurrent_kinds[] = {
    {"RNN", Op::rnn, 1, {0}, {"Tanh"}},
    {"GRU", Op::gru, 1, {1, 0, 2}, {"Sigmoid", "Tanh"}},               // z r h -> r z n
    {"LSTM", Op::lstm, 2, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}},  // i o f c -> i f g o
};
// Finds the kind by a member: its name or its op.
template <class Key>
const RecurrentKind& recurrent_kind(Key RecurrentKind::*member, const Key& key) {
  return *std::ranges::find(k_recurrent_kinds, key, member);
}

}  // namespace unroll::onnx
