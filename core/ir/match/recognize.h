// SPDX-License-Identifier: Apache-2.0
// Recognizes loops that compute a composite (rnn, gru and lstm in all variants) from their equations.
#pragma once

#include <memory>

#include "unroll/ir/graph.h"

namespace unroll {

// For a scan node of `graph` whose step equals that of a composite over the reals (see normal_form.h): a graph from the
// operands of the node to its results with that composite in it. Null when there is none. Weights and biases that the
// step takes apart or together in another way are joined to the composite's. A scan in reverse is none.
std::shared_ptr<const Graph> recognize_scan(const Graph& graph, const Node& scan);

}  // namespace unroll
