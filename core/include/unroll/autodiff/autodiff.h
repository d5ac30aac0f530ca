// SPDX-License-Identifier: Apache-2.0
// Reverse-mode automatic differentiation on graphs. The gradient consists of ordinary nodes appended to the same graph,
// so it can be differentiated again, fused and planned like any other node.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Returns d(sum over k of <outputs[k], cotangents[k]>) / d wrt[i] for each i, with the type of wrt[i]; gradients and
// cotangents of 16-bit values are f32. The gradient is zero for a wrt on which the outputs do not depend. Throws
// Error(type) when a wrt is not a float, and Error(unsupported), which names the op, when a path contains an op without
// a gradient.
UNROLL_API std::vector<Value> differentiate(ValueList outputs, ValueList cotangents, ValueList wrt);
// The same for one scalar output with cotangent 1. Throws Error(shape) when `loss` is not a scalar.
UNROLL_API std::vector<Value> differentiate(Value loss, ValueList wrt);

// The value of a scalar function at `arguments`, and its gradient with respect to each of them. The function is called
// once. Values that it captures are constants, unless they depend on an argument. Errors as above.
struct ValueAndGradients {
  Value value;
  std::vector<Value> gradients;
};
UNROLL_API ValueAndGradients value_and_grad(const std::function<Value(std::span<const Value> arguments)>& function,
                                            ValueList arguments);

}  // namespace unroll
