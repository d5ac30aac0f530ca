// SPDX-License-Identifier: Apache-2.0
// The definition of a composite: its body in simpler ops for given input types. Claimed kernels are tested against it;
// without a claim the body runs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// Appends the body of a node to the graph of `in` and returns the node's outputs, both in the node's order.
using BodyFunction = std::vector<Value> (*)(std::span<const Value> in, const Attributes& attributes);

// Null for an op that is no composite.
BodyFunction find_body(Op op);

// A graph of its own with inputs in0, in1, ... and outputs out0, out1, ... Throws Error(graph) for an op without body.
std::shared_ptr<const Graph> build_composite(Op op, std::span<const Type> inputs, const Attributes& attributes);

}  // namespace unroll
