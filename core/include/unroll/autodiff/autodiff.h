// SPDX-License-Identifier: Apache-2.0
// Reverse-mode automatic differentiation on graphs. The gradient consists of ordinary nodes appended to the same graph,
// so it can be differentiated again, fused and planned like any other node.
#pragma once

#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Returns d(sum over k of <outputs[k], cotangents[k]>) / d wrt[i] for each i, with the type of wrt[i]; gradients and
// cotangents of 16-bit values are f32. The gradient is zero for a wrt on which the outputs do not depend. Throws
// Error(type) when a wrt is not a float, and Error(unsupported), which names the op, when a path contains an op without
// a gradient.
UNROLL_API std::vector<Value> differentiate(std::span<const Value> outputs, std::span<const Value> cotangents,
                                            std::span<const Value> wrt);
// The same for one scalar output with cotangent 1. Throws Error(shape) when `loss` is not a scalar.
UNROLL_API std::vector<Value> differentiate(Value loss, std::span<const Value> wrt);

}  // namespace unroll
