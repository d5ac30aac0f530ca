// SPDX-License-Identifier: Apache-2.0
// The layers before a recurrent stack: convolutions over time, pooling, activations. docs/config.md has their texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/model/model.h"

namespace unroll {

struct FrontResult {
  Value y;                    // [T',B,C]; T' < T with strides
  std::vector<Value> states;  // of each causal convolution: its last inputs [(kernel - 1) * dilation, B, width]
};
struct FrontContext {
  bool is_carried = false;             // outputs must not depend on later steps, and have one for each step
  std::span<const Value> initial = {};  // one for each state, or empty for zeros
  Value lengths, reset;                // as in recurrent_model; with lengths, every step has an output
};
// x [T,B,I] through `front`, texts of RecurrentModelOptions::front. The parameters of layer k are "k.weight" and so on.
// Throws Error(usage) on a text that is no layer, or none that the context allows.
FrontResult front_layers(const Scope& scope, Value x, const std::vector<std::string>& front,
                         const FrontContext& context);
std::size_t front_states(const std::vector<std::string>& front);  // number of states

}  // namespace unroll
