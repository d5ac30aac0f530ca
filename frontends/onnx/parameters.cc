// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/parameters.h"

#include <algorithm>
#include <map>

#include "core/support/tensor_role.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"

namespace unroll::onnx {
namespace {

constexpr std::int64_t k_fewest_integers = 64;  // shorter lists, such as shapes, stay constants

// Several elements that are all equal, such as zeros for every step. NaN is not equal to itself.
bool is_repeated(const Tensor& tensor) {
  for (std::int64_t k = 1; k < tensor.elements(); ++k)
    if (tensor.at(k) != tensor.at(0)) return false;
  return tensor.elements() > 1 && tensor.at(0) == tensor.at(0);
}

bool is_parameter(const Tensor& tensor) {
  if (tensor.elements() < 2 || is_repeated(tensor)) return false;
  if (tensor.dtype() == DType::f32) return true;
  if (tensor.dtype() != DType::i32 || tensor.elements() < k_fewest_integers) return false;
  const auto is_exact = [](std::int32_t value) { return std::abs(std::int64_t{value}) <= 1 << 24; };
  return std::ranges::all_of(tensor.values<std::int32_t>(), is_exact);
}

}  // namespace

OpenGraph with_parameters(const Graph& graph, const Model& model) {
  std::map<const Tensor*, std::string> names;
  for (const auto& [name, tensor] : model.graph.initializers) names.emplace(tensor.get(), name);
  OpenGraph open{std::make_shared<Graph>(), {}};
  std::map<const Tensor*, Value> inputs;  // by constant
  PerNode<std::vector<Value>> map(graph);
  for (const NamedValue& input : graph.inputs())
    map[input.value.node] = {open.graph->input(input.name, graph.type(input.value))};
  std::size_t n_unnamed = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::constant) continue;
    const auto& tensor = node.attributes.get<std::shared_ptr<const Tensor>>("value");
    if (!is_parameter(*tensor) || inputs.contains(tensor.get())) continue;
    const auto named = names.find(tensor.get());
    std::string name = named != names.end() ? named->second : "constant." + std::to_string(n_unnamed++);
    if (role_of(name) != TensorRole::parameter || open.graph->find_input(name)) name = "parameter." + name;
    const Value parameter = open.graph->input(name, {DType::f32, tensor->shape()});
    inputs.emplace(tensor.get(), cast(parameter, tensor->dtype()));
    open.parameters.emplace(name, tensor->cast(DType::f32));
  }
  std::vector<Value> operands;
  for (std::size_t n = 0; n < map.size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (!map[n].empty()) continue;
    if (node.op == Op::constant) {
      const auto& tensor = node.attributes.get<std::shared_ptr<const Tensor>>("value");
      const auto at = inputs.find(tensor.get());
      if (at != inputs.end()) map[n] = {at->second};
      else if (is_repeated(*tensor)) map[n] = {filled(*open.graph, tensor->type(), tensor->at(0))};
      if (!map[n].empty()) continue;
    }
    operands.clear();
    for (const ValueId& id : node.inputs) operands.push_back(map[id.node][id.output]);
    map[n] = open.graph->append_copy(graph, node, operands);
  }
  for (const NamedValue& output : graph.outputs())
    open.graph->output(output.name, map[output.value.node][output.value.output]);
  return open;
}

}  // namespace unroll::onnx
