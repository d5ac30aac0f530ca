// SPDX-License-Identifier: Apache-2.0
// Which numbers of a graph's inputs are indices, and of how many rows. A graph reads zeros where an index is out of
// range; callers that have the numbers on the host refuse them instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/support/tensor.h"

namespace unroll {

struct IndexLimit {
  std::string input;
  std::vector<std::int64_t> begin, size;  // the part of the input that is looked up, by axis
  std::int64_t least, most;               // that are allowed
  std::string what;                       // "the 4 classes"
};

// Of the ids of `embedding`, the indices of ONNX's Gather, and the labels of `softmax_cross_entropy`, where they are
// inputs: slices of them, and these in another shape or order, or side by side.
std::vector<IndexLimit> index_limits(const Graph& graph);

// Throws Error(usage), which names the input, the first index out of range, its place and the range.
void check_indices(const std::vector<IndexLimit>& limits, const std::string& input, const Tensor& tensor);
void check_indices(const std::vector<IndexLimit>& limits, const TensorMap& inputs);

}  // namespace unroll
