// SPDX-License-Identifier: Apache-2.0
// How tests run a graph: the truth without any pass or memory plan, and backends as users run them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unroll/backend.h"
#include "unroll/tensor.h"

namespace unroll::testing {

// The graph with every composite and gradient replaced by its body, also inside scans. Nothing else changes.
std::shared_ptr<const Graph> expanded(const Graph& graph);

// The reference backend on the expanded graph, every value in memory of its own: no pass takes part.
TensorMap run_truth(const Graph& graph, const TensorMap& inputs);

// Available backends that compute, without the reference itself.
std::vector<std::string> judged_backends();

// The float dtypes that a backend declares.
std::vector<DType> float_dtypes(const std::string& backend);

// Float inputs as absolute values: a sum of products of them is the sum |a||b| of an error bound.
TensorMap absolute(const TensorMap& inputs);

// Float tensors in another float dtype.
TensorMap in_dtype(const TensorMap& inputs, DType dtype);

}  // namespace unroll::testing
