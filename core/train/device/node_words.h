// SPDX-License-Identifier: Apache-2.0
// Names of nodes and of elements of their results, for messages.
#pragma once

#include <cstdint>
#include <string>

#include "unroll/ir/graph.h"

namespace unroll {

// The graph that a node belongs to, and where that is the body of a loop, the loop and its surroundings.
struct Inside {
  const Graph& graph;
  const Inside* around = nullptr;
  const Node* loop = nullptr;
};

// "matmul of weight_hh_l0": what it computes, and the graph's inputs that it reads, itself or through a few others.
std::string node_words(const Inside& inside, const Node& node);

// " at [3,7] of f32[32,128]"
std::string element_words(const Type& type, std::int64_t index);
// Coordinates of an element, the last axis fastest.
Ints coordinates(const Shape& shape, std::int64_t index);

}  // namespace unroll
