// SPDX-License-Identifier: Apache-2.0
// A recurrent composite as oneDNN primitives: one per layer, both directions in one, states and sequences in the plan's
// layouts. Letters for sizes as in backends/common/claims/recurrent.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/claims/recurrent.h"
#include "backends/onednn/primitives.h"

namespace unroll::onednn {

using common::Parameter;
using common::position_of;
using common::Recurrent;  // its format is that of x, h and the weights inside; c, biases and gradients are f32
using common::recurrent_of;

// Returns the reason why oneDNN cannot compute it; empty if its attributes and types are supported.
std::string refusal(const Recurrent& r);

// gate_order(r)[k] is PyTorch's number of oneDNN's gate k: lstm i f c o is i f g o; gru u r o is z r n.
std::vector<std::int64_t> gate_order(const Recurrent& r);

// Returns the number of threads, at most n, for a layer's primitives: a step's barrier may outlast its work.
int threads_for(const Recurrent& r, int n);

// Returns the primitive for one layer; null if this oneDNN has none. `kind` is inference or training.
PrimitiveDesc make_forward(const Recurrent& r, std::int64_t layer, dnnl_prop_kind_t kind);
PrimitiveDesc make_backward(const Recurrent& r, std::int64_t layer, const PrimitiveDesc& training);

}  // namespace unroll::onednn
