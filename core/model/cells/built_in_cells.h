// SPDX-License-Identifier: Apache-2.0
// Parameters of rnn, gru and lstm, and their equations for one step, used if the composite does not support an option.
#pragma once

#include <vector>

#include "unroll/model/model.h"

namespace unroll {

// Sizes of a built-in layer: G gates, H hidden, P output, D directions.
struct BuiltInWidths {
  std::int64_t gates, hidden, output, directions;
  static BuiltInWidths of(Op cell, const RecurrentModelOptions& options);
};

// Creates the parameters of `options.layers` layers from number `first` on, in the order of the composite. `inputs` is
// the width of x. In training weight_drop is applied to weight_hh.
std::vector<Value> built_in_parameters(Scope& scope, Op cell, std::int64_t inputs, int first,
                                       const RecurrentModelOptions& options);

// The same parameters and the same function, with recurrent_dropout.
Cell built_in_cell(Op cell, const RecurrentModelOptions& options);

}  // namespace unroll
