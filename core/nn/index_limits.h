// SPDX-License-Identifier: Apache-2.0
// Graph inputs that are indices, with their limits. A graph reads zeros at an index out of range. Callers with the
// indices on the host refuse them instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/support/tensor.h"

namespace unroll {

struct IndexLimit {
  std::string input;
  std::vector<std::int64_t> begin, size;  // range of the looked-up part of the input, by axis
  std::int64_t least, most;               // allowed values
  std::string what;                       // "the 4 classes"
};

// Finds ids of `embedding`, indices of ONNX's Gather, and labels of `softmax_cross_entropy` that are inputs, or slices
// of inputs. Reshapes, transposes and concatenations of them count too.
std::vector<IndexLimit> index_limits(const Graph& graph);

// Throw Error(usage), which names the input, the first index out of range, its position and the range.
void check_indices(const std::vector<IndexLimit>& limits, const std::string& input, const Tensor& tensor);
void check_indices(const std::vector<IndexLimit>& limits, const TensorMap& inputs);

}  // namespace unroll
