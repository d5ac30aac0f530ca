// SPDX-License-Identifier: Apache-2.0
#include "core/model/step_graph.h"

#include <string>

#include "core/support/tensor_role.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Type input_type(const StreamModel& model, std::int64_t steps, std::int64_t lanes) {
  if (model.input == DType::i32) return {DType::i32, {steps, lanes}};
  return {DType::f32, {steps, lanes, model.inputs}};
}

// The graph of a model that is a graph of whole sequences; 1 step stands for the smallest block.
BlockStream block_graph(const StreamModel& model, std::int64_t steps, std::int64_t lanes, const Constants& weights,
                        std::string_view who) {
  if (lanes != 1)
    throw Error(ErrorKind::unsupported, who, "a stream of a graph has one lane; got " + std::to_string(lanes));
  BlockStreamOptions options = model.blocks;
  if (steps > 1) options.block = steps;
  const auto graph_of = [&](std::int64_t T) {
    Graph open;  // parameters are inputs
    Scope scope(open, /*training=*/false);
    model.whole(scope, T);
    return with_constants(open, scope.parameters(), weights, who);
  };
  BlockStream stream = block_stream(graph_of, options);
  const Type& x = stream.graph->type(stream.graph->inputs()[0].value);
  if (x.dtype != DType::f32 && x.dtype != DType::i32)
    throw Error(ErrorKind::unsupported, who, "a stream reads f32 or i32; input '" + stream.input + "' is " + x.text());
  return stream;
}

}  // namespace

BlockStream step_graph(const StreamModel& model, std::int64_t steps, std::int64_t lanes, const Constants& weights,
                       std::string_view who) {
  if (model.whole) return block_graph(model, steps, lanes, weights, who);
  Graph open;  // parameters are inputs
  Scope scope(open, /*training=*/false);
  const Value x = open.input("x", input_type(model, steps, lanes));
  std::vector<Value> states;
  for (const Shape& shape : model.state_shapes(lanes))
    states.push_back(open.input(state_name(states.size()), {DType::f32, shape}));
  const CellLayerResult result = model.build(scope, x, states);
  open.output("y", result.y);
  for (std::size_t k = 0; k < states.size(); ++k) open.output(state_name(k), result.states.at(k));
  if (result.y.rank() != 3)
    throw Error(ErrorKind::shape, who, "the model's y must be [T,B,O]; got " + result.y.shape().text());
  BlockStream stream;
  stream.graph = with_constants(open, scope.parameters(), weights, who);
  stream.block = stream.rows = steps;
  stream.length = [](std::int64_t T) { return T; };
  return stream;
}

}  // namespace unroll
