// SPDX-License-Identifier: Apache-2.0
#include "tests/support/backends.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "backends/registry.h"
#include "tests/support/backend_options.h"
#include "tests/support/each_backend.h"
#include "tests/support/late_backend.h"
#include "tests/support/simple_plan.h"
#include "unroll/support/error.h"

namespace unroll::testing {

std::shared_ptr<const Graph> expanded(const Graph& graph) {
  auto target = std::make_shared<Graph>();
  std::vector<std::vector<Value>> values;
  for (const Node& node : graph.nodes()) {
    std::vector<Value> operands;
    for (const ValueId& v : node.inputs)
      operands.push_back(values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.output)]);
    if (node.op == Op::input)
      values.push_back({target->input(node.attributes.get<std::string>("name"), node.outputs[0])});
    else if (node.op == Op::gradient || op_info(node.op).tier == OpTier::composite)
      values.push_back(inline_graph(*target, *expanded(*composite_body(graph, node)), operands));
    else
      values.push_back(target->append(node.op, operands, node.attributes, node.body ? expanded(*node.body) : nullptr));
  }
  for (const NamedValue& output : graph.outputs())
    target->output(output.name,
                   values[static_cast<std::size_t>(output.value.node)][static_cast<std::size_t>(output.value.output)]);
  return target;
}

TensorMap run_truth(const Graph& graph, const TensorMap& inputs) {
  const auto backend = make_reference_backend({});
  return run_plan(simple_plan(expanded(graph)), *backend, inputs);
}

namespace {

constexpr const char* k_reference = "reference";
constexpr const char* k_inside_late = "cpu";
constexpr const char* k_vulkan = "vulkan";

// Options of backends that a test is run once more with.
constexpr struct {
  const char *backend, *option, *variable;
} k_environment[] = {
    {"vulkan", "loops", "UNROLL_VULKAN_LOOPS"},
    {"vulkan", "sizes", "UNROLL_VULKAN_SIZES"},
    {"cuda", "products", "UNROLL_CUDA_PRODUCTS"},
    {"cuda", "loops", "UNROLL_CUDA_LOOPS"},
    {"cuda", "rnn", "UNROLL_CUDA_RNN"},
};
BackendOptions with_environment(const std::string& name, BackendOptions options) {
  for (const auto& each : k_environment)
    if (const char* value = std::getenv(each.variable); value && name == each.backend)
      options.specific.emplace(each.option, value);
  return options;
}

// Under the validation layer where it is installed: any message of it is an error.
BackendOptions validated(BackendOptions options) {
  static const bool installed = [] {
    try {
      make_backend(k_vulkan, {.specific = {{"validation", "true"}}});
      return true;
    } catch (const Error& error) {
      std::printf("without validation: %s\n", error.what());
      return false;
    }
  }();
  if (installed) options.specific.emplace("validation", "true");
  return options;
}

std::string& only() {
  static std::string name;
  return name;
}

}  // namespace

void test_only(const std::string& name) { only() = name; }

std::vector<std::string> tested_backends() {
  if (!only().empty()) return {only()};
  std::vector<std::string> names = computing_backends();
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == k_reference; });
  return names;
}

std::vector<std::string> verified_backends() {
  std::vector<std::string> names = tested_backends();
  std::erase(names, k_reference);
  return names;
}

std::unique_ptr<Backend> open_tested(const std::string& name, const BackendOptions& options) {
  if (name == k_vulkan) return make_backend(name, validated(with_environment(name, options)));
  if (name != k_late) return make_backend(name, with_environment(name, options));
  return std::make_unique<LateBackend>(make_backend(k_inside_late, options));
}

std::vector<std::string> tested_schedules(const std::string& name) {
  return name == k_late ? std::vector<std::string>() : schedules_of(name);
}

bool is_tested(const std::string& name) {
  const std::vector<std::string> names = tested_backends();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool must_refuse(const Backend& backend, const Graph& graph) {
  const std::vector<DType>& has = backend.describe().dtypes;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return (node.op == Op::fused_reduction && !backend.describe().groups_rows) ||
           (node.body && must_refuse(backend, *node.body)) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), [&](const Type& type) {
             return std::find(has.begin(), has.end(), type.dtype) == has.end();
           });
  });
}

std::vector<DType> float_dtypes(const std::string& backend) {
  std::vector<DType> list = open_tested(backend)->describe().dtypes;
  std::erase_if(list, [](DType d) { return !is_float(d); });
  return list;
}

TensorMap absolute(const TensorMap& inputs) {
  TensorMap result = inputs;
  for (auto& [name, tensor] : result)
    if (is_float(arithmetic_dtype(tensor.dtype())))
      for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, std::abs(tensor.at(i)));
  return result;
}

TensorMap in_dtype(const TensorMap& inputs, DType dtype) {
  TensorMap result = inputs;
  for (auto& [name, tensor] : result)
    if (is_float(tensor.dtype())) tensor = tensor.cast(dtype);
  return result;
}

}  // namespace unroll::testing
