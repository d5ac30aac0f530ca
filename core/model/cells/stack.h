// SPDX-License-Identifier: Apache-2.0
// Stacked layers: connections and dropout between layers.
#pragma once

#include <functional>

#include "unroll/model/model.h"

namespace unroll {

// x [T,B,I] through `run` for each layer, with the skip connections and the dropout of `options` between them; y of the
// last one, zero at t >= lengths[b]. Throws Error(usage) on skip connections if no layer's input is as wide as its
// output.
Value stacked(Scope scope, Value x, const RecurrentModelOptions& options, Value lengths,
              const std::function<Value(int layer, Value x)>& run);

// cell_layer for options that are checked, without penalties. weight_drop acts on parameters called weight_hh.
CellLayerResult layers_of_cell(const Scope& scope, const CellFactory& factory, Value x,
                               const RecurrentModelOptions& options, std::span<const Value> initial, Value lengths,
                               Value reset);

}  // namespace unroll
