// SPDX-License-Identifier: Apache-2.0
#include "core/model/step_graph.h"

#include "core/support/tensor_role.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Type input_type(const StreamModel& model, std::int64_t steps, std::int64_t lanes) {
  if (model.input == DType::i32) return {DType::i32, {steps, lanes}};
  return {DType::f32, {steps, lanes, model.inputs}};
}

}  // namespace

std::shared_ptr<Graph> step_graph(const StreamModel& model, std::int64_t steps, std::int64_t lanes,
                                  const Constants& weights, std::string_view who) {
  Graph open;  // parameters are inputs
  Scope scope(open, /*training=*/false);
  const Value x = open.input("x", input_type(model, steps, lanes));
  std::vector<Value> states;
  for (const Shape& shape : model.state_shapes(lanes))
    states.push_back(open.input(state_name(states.size()), {DType::f32, shape}));
  const CellLayerResult result = model.build(scope, x, states);
  open.output("y", result.y);
  for (std::size_t k = 0; k < states.size(); ++k) open.output(state_name(k), result.states.at(k));
  return with_constants(open, scope.parameters(), weights, who);
}

}  // namespace unroll
