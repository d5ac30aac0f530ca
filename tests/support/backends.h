// SPDX-License-Identifier: Apache-2.0
// How tests run a graph: the truth without any pass or memory plan, and backends as users run them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/support/tensor.h"

namespace unroll::testing {

// The graph with every composite and gradient replaced by its body, also inside scans. Nothing else changes.
std::shared_ptr<const Graph> expanded(const Graph& graph);

// The reference backend on the expanded graph, every value in memory of its own: no pass takes part.
TensorMap run_truth(const Graph& graph, const TensorMap& inputs);

// Available backends that compute, without the reference itself. After test_only() that one alone.
std::vector<std::string> verified_backends();
// The same with the reference first, as a backend whose passes and memory plans are tested.
std::vector<std::string> tested_backends();
void test_only(const std::string& name);

// The name of one more backend, for test_only(): cpu behind a LateBackend, everything as late as the contract allows.
inline constexpr const char* k_late = "late";
// make_backend, also for k_late.
std::unique_ptr<Backend> open_tested(const std::string& name, const BackendOptions& options = {});
bool is_tested(const std::string& name);
// The values of the option "schedule" to try on the backend; none where it has no such option.
std::vector<std::string> tested_schedules(const std::string& name);

// Whether the graph or a body in it has values of a dtype, or fused reductions, that the backend does not declare: it
// must refuse the plan.
bool must_refuse(const Backend& backend, const Graph& graph);

// The float dtypes that a backend declares.
std::vector<DType> float_dtypes(const std::string& backend);

// Float inputs as absolute values: a sum of products of them is the sum |a||b| of an error bound.
TensorMap absolute(const TensorMap& inputs);

// Float tensors in another float dtype.
TensorMap in_dtype(const TensorMap& inputs, DType dtype);

}  // namespace unroll::testing
