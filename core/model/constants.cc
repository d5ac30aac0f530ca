// SPDX-License-Identifier: Apache-2.0
#include "core/model/constants.h"

#include <set>

#include "core/train/files/check_parameters.h"

namespace unroll {

namespace {

std::shared_ptr<Graph> closed_graph(const Graph& open, const std::set<std::string>& closing, const Constants& constants,
                                    bool uses_all, std::string_view who) {
  NamedTypes expected, got;
  for (const NamedValue& input : open.inputs())
    if (closing.contains(input.name)) expected.emplace(input.name, open.type(input.value));
  for (const auto& [name, tensor] : constants)
    if (uses_all || expected.contains(name)) got.emplace(name, tensor->type());
  check_parameters(expected, got, who);

  auto closed = std::make_shared<Graph>();
  std::vector<Value> inputs;
  for (const NamedValue& input : open.inputs())
    inputs.push_back(closing.contains(input.name)
                         ? closed->append_one(Op::constant, {}, {{"value", constants.at(input.name)}})
                         : closed->input(input.name, open.type(input.value)));
  const std::vector<Value> outputs = inline_graph(*closed, open, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) closed->output(open.outputs()[k].name, outputs[k]);
  return closed;
}

}  // namespace

Constants constants_of(const TensorMap& tensors) {
  Constants constants;
  for (const auto& [name, tensor] : tensors) constants.emplace(name, std::make_shared<const Tensor>(tensor));
  return constants;
}

std::shared_ptr<Graph> with_constants(const Graph& open, std::size_t n_inputs, const Constants& constants,
                                      std::string_view who) {
  std::set<std::string> closing;
  for (const NamedValue& input : open.inputs().subspan(n_inputs)) closing.insert(input.name);
  return closed_graph(open, closing, constants, /*uses_all=*/false, who);
}

std::shared_ptr<Graph> with_constants(const Graph& open, std::span<const ParameterSpec> parameters,
                                      const Constants& constants, std::string_view who) {
  std::set<std::string> closing;
  for (const ParameterSpec& p : parameters) closing.insert(p.name);
  return closed_graph(open, closing, constants, /*uses_all=*/true, who);
}

}  // namespace unroll
