// SPDX-License-Identifier: Apache-2.0
// Equality of graphs, and attributes as bytes for hash tables of nodes and for graph hashes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "unroll/ir/graph.h"

namespace unroll {

// Equal for equal attributes and different for different ones. `tensor_bytes` stands for a tensor: by default its type
// and elements.
using TensorBytes = std::function<std::string(const std::shared_ptr<const Tensor>&)>;
std::string type_and_elements(const std::shared_ptr<const Tensor>& tensor);
std::string attribute_bytes(const Attributes& attributes, const TensorBytes& tensor_bytes = type_and_elements);

// True if both have equal nodes in the same order, and equal inputs and outputs. Origins may differ.
bool is_same_graph(const Graph& a, const Graph& b);

}  // namespace unroll
