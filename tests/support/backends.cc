// SPDX-License-Identifier: Apache-2.0
#include "tests/support/backends.h"

#include <cmath>

#include "backends/registry.h"
#include "tests/support/simple_plan.h"

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

std::vector<std::string> judged_backends() {
  std::vector<std::string> names;
  for (const BackendStatus& status : list_backends())
    if (status.available && status.name != "reference" && status.name != "null") names.push_back(status.name);
  return names;
}

std::vector<DType> float_dtypes(const std::string& backend) {
  std::vector<DType> list = make_backend(backend)->describe().dtypes;
  std::erase_if(list, [](DType d) { return !is_float(d); });
  return list;
}

TensorMap absolute(const TensorMap& inputs) {
  TensorMap result = inputs;
  for (auto& [name, tensor] : result)
    if (is_float(tensor.dtype()))
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
