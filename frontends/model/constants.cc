// SPDX-License-Identifier: Apache-2.0
#include "frontends/model/constants.h"

#include "unroll/error.h"

namespace unroll {

Constants constants_of(const TensorMap& tensors) {
  Constants constants;
  for (const auto& [name, tensor] : tensors) constants.emplace(name, std::make_shared<const Tensor>(tensor));
  return constants;
}

std::shared_ptr<Graph> with_constants(const Graph& open, std::size_t n_inputs, const Constants& constants,
                                      std::string_view who) {
  auto closed = std::make_shared<Graph>();
  std::vector<Value> inputs;
  for (const NamedValue& input : open.inputs()) {
    const Type& type = open.type(input.value);
    if (inputs.size() < n_inputs) {
      inputs.push_back(closed->input(input.name, type));
      continue;
    }
    const auto at = constants.find(input.name);
    if (at == constants.end())
      throw Error(ErrorKind::input_file, who, "parameter '" + input.name + "' " + type.text() + " is missing");
    if (at->second->type() != type)
      throw Error(ErrorKind::input_file, who,
                  "parameter '" + input.name + "' must be " + type.text() + "; got " + at->second->type().text());
    inputs.push_back(closed->append_one(Op::constant, {}, {{"value", at->second}}));
  }
  const std::vector<Value> outputs = inline_graph(*closed, open, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k) closed->output(open.outputs()[k].name, outputs[k]);
  return closed;
}

}  // namespace unroll
