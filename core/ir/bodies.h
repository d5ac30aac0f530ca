// SPDX-License-Identifier: Apache-2.0
// The bodies of all composites, one function each. composite.cc maps ops to bodies.
#pragma once

#include <span>
#include <vector>

#include "unroll/graph.h"

namespace unroll::bodies {

using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

// bodies_cells.cc
Values rnn(Inputs in, const Attributes& attributes);
Values gru(Inputs in, const Attributes& attributes);
Values lstm(Inputs in, const Attributes& attributes);
// bodies_layers.cc
Values softmax(Inputs in, const Attributes& attributes);
Values log_softmax(Inputs in, const Attributes& attributes);
Values layer_norm(Inputs in, const Attributes& attributes);
Values dropout(Inputs in, const Attributes& attributes);
Values embedding(Inputs in, const Attributes& attributes);
// bodies_attention.cc
Values dot_attention(Inputs in, const Attributes& attributes);
Values additive_attention(Inputs in, const Attributes& attributes);
Values multi_head_attention(Inputs in, const Attributes& attributes);
// bodies_losses.cc
Values softmax_cross_entropy(Inputs in, const Attributes& attributes);
Values mse(Inputs in, const Attributes& attributes);
Values mae(Inputs in, const Attributes& attributes);
Values huber(Inputs in, const Attributes& attributes);
Values bce(Inputs in, const Attributes& attributes);
// bodies_updates.cc
Values sgd(Inputs in, const Attributes& attributes);
Values adam(Inputs in, const Attributes& attributes);
Values rmsprop(Inputs in, const Attributes& attributes);
Values adagrad(Inputs in, const Attributes& attributes);
Values lion(Inputs in, const Attributes& attributes);

}  // namespace unroll::bodies
