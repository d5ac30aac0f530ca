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
// x [T,B,I] through `run` for each layer; y of the last. Where x and y have one width a layer gives on what `stack`
// says, zero at t >= lengths[b]. Throws Error(usage) when `stack` is not plain and no layer's widths agree.
Value stacked(Scope scope, Value x, const StackOptions& options, Value lengths,
              const std::function<Value(int layer, Value x)>& run);

}  // namespace unroll
