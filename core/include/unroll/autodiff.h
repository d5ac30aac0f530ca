// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation, graph to graph: the gradient is made of ordinary nodes appended to the same graph,
// so it can be differentiated again, fused and planned like everything else.
#pragma once

#include <span>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// d(sum over k of <outputs[k], cotangents[k]>) / d wrt[i], same types as wrt. A wrt that the outputs do not depend on
// gets zeros. Throws Error(type) when a wrt is not of a float dtype and Error(unsupported) naming the op when the path
// runs through an op without gradient.
UNROLL_API std::vector<Value> differentiate(std::span<const Value> outputs, std::span<const Value> cotangents,
                                            std::span<const Value> wrt);
// The same for one scalar output with cotangent 1. Throws Error(shape) when loss is not a scalar.
UNROLL_API std::vector<Value> differentiate(Value loss, std::span<const Value> wrt);

}  // namespace unroll
