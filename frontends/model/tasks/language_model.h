// SPDX-License-Identifier: Apache-2.0
// The network of a character language model, for training on windows and for generating step by step.
#pragma once

#include <vector>

#include "unroll/model.h"
#include "unroll/trainer.h"

namespace unroll {

struct LanguageNetwork {
  Value logits;                      // [T, B, V]
  std::vector<CarriedState> states;
};
// ids i32 [T, B]. Parameters "embedding.*", "recurrent.*", "output.*".
LanguageNetwork language_network(Scope& scope, Value ids, const RecurrentModelOptions& model, std::int64_t embedding,
                                 std::int64_t vocabulary);

}  // namespace unroll
