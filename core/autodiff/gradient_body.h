// SPDX-License-Identifier: Apache-2.0
// Builds the gradient of a graph as a graph, and that of a composite as a body.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// A graph whose inputs are those of `forward` and then the cotangents of the outputs listed in d_outputs, and whose
// outputs are the gradients of the inputs listed in d_inputs.
std::shared_ptr<const Graph> gradient_graph(const Graph& forward, std::span<const std::int64_t> d_outputs,
                                            std::span<const std::int64_t> d_inputs);

// The types of a node's inputs.
std::vector<Type> input_types(const Graph& graph, const Node& node);

// The body of a gradient node in plain ops: inputs and outputs in the node's order.
std::shared_ptr<const Graph> gradient_body(const Graph& graph, const Node& node);

}  // namespace unroll
