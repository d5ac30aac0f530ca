// SPDX-License-Identifier: Apache-2.0
// Stacked layers: connections and dropout between layers.
#pragma once

#include <functional>

#include "unroll/model/model.h"

namespace unroll {

struct StackOptions {
  int layers = 1;
  double dropout = 0;  // between layers
  DropoutMask mask = DropoutMask::step;
  Stack stack = Stack::plain;
};
// Applies `run` to x [T,B,I] layer by layer and returns y of the last layer. If x and y of a layer have the same width,
// the skip connection `stack` joins them, with zeros at t >= lengths[b]. Throws Error(usage) if `stack` is not plain
// and no layer has equal widths.
Value stacked(Scope scope, Value x, const StackOptions& options, Value lengths,
              const std::function<Value(int layer, Value x)>& run);

}  // namespace unroll
