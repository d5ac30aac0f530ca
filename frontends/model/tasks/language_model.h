// SPDX-License-Identifier: Apache-2.0
// The network of a character language model, for training on windows and for generating step by step.
#pragma once

#include <span>

#include "unroll/model.h"

namespace unroll {

// ids i32 [T, B], states those of the recurrent part -> y: logits [T, B, V], and the next states. Parameters
// "embedding.*", "recurrent.*", "output.*".
CellLayerResult language_network(Scope& scope, Value ids, std::span<const Value> states,
                                 const RecurrentModelOptions& model, std::int64_t embedding, std::int64_t vocabulary);

}  // namespace unroll
