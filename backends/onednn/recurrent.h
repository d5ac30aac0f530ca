// SPDX-License-Identifier: Apache-2.0
// A recurrent composite as oneDNN sees it: one primitive per layer, both directions in one, states and sequences in
// the layouts they have in the plan. Letters for sizes are those of backends/common/claims/recurrent.h.
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

// Why oneDNN cannot take it, in words; empty when it can, as far as its attributes and types say.
std::string refusal(const Recurrent& r);

// gate_order(r)[k] is PyTorch's number of oneDNN's gate k: lstm i f c o is i f g o; gru u r o is z r n.
std::vector<std::int64_t> gate_order(const Recurrent& r);

// How many of n threads the primitives of a layer get: a step ends with a barrier, which may take longer than the rest.
int threads_for(const Recurrent& r, int n);

// The primitive for one layer; null when this oneDNN has none. `kind` is inference or training.
PrimitiveDesc make_forward(const Recurrent& r, std::int64_t layer, dnnl_prop_kind_t kind);
PrimitiveDesc make_backward(const Recurrent& r, std::int64_t layer, const PrimitiveDesc& training);

}  // namespace unroll::onednn
