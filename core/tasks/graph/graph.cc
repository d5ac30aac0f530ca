// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/graph/graph.h"

#include <map>
#include <memory>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Two numbers of steps that show which axes depend on T. Strides up to 10 and powers of two divide them.
constexpr std::int64_t k_one = 80640, k_two = 161280;

GraphModel graph_of(const Metadata& metadata) {
  return {get_text(metadata, "graph"), get_text(metadata, "input"), get_text(metadata, "output"),
          get_integer(metadata, "look_ahead")};
}

Type type_of_input(Graph& graph, const GraphModel& model, ErrorKind kind = ErrorKind::input_file) {
  const Value in = graph.find_input(model.input);
  if (!in || graph.outputs().empty())
    throw Error(kind, "graph", "the graph has no input " + in_quotes(model.input) + ", or no output");
  return in.type();
}

TensorSpec spec_of(const std::string& name, const Type& one, const Type& two, int& n_letters) {
  TensorSpec spec{name, one.dtype, {}};
  for (int axis = 0; axis < one.shape.rank(); ++axis) {
    const std::int64_t a = one.shape[axis], b = two.shape[axis];
    if (a == b) spec.axes.push_back({"", a});
    else if (a == k_one && b == k_two) spec.axes.push_back({"T", 0});
    else spec.axes.push_back({"N" + std::to_string(n_letters++), 0});
  }
  return spec;
}

// Appends the graph for T steps to the scope. `x` stands for its input, the others are parameters.
std::vector<std::pair<std::string, Value>> build(Scope& scope, const GraphModel& model, std::int64_t T, Value x) {
  const auto graph = parse_for_length(model.text, T);
  std::vector<Value> inputs;
  for (const NamedValue& input : graph->inputs()) {
    const Type& type = graph->type(input.value);
    inputs.push_back(input.name == model.input ? x : scope.parameter(input.name, type.shape, Initializer::zeros()));
  }
  const std::vector<Value> values = inline_graph(scope.graph(), *graph, inputs);
  std::vector<std::pair<std::string, Value>> outputs;
  for (std::size_t k = 0; k < values.size(); ++k) outputs.emplace_back(graph->outputs()[k].name, values[k]);
  return outputs;
}

}  // namespace

Metadata graph_metadata(const GraphModel& model) {
  type_of_input(*parse_for_length(model.text, k_one), model, ErrorKind::usage);
  return {{"task", "graph"},
          {"graph", model.text},
          {"input", model.input},
          {"output", model.output},
          {"look_ahead", std::to_string(model.look_ahead)}};
}

Inference graph_inference(const Metadata& metadata) {
  const GraphModel model = graph_of(metadata);
  const auto one = parse_for_length(model.text, k_one), two = parse_for_length(model.text, k_two);
  Inference i;
  int n_letters = 0;
  i.inputs = {spec_of(model.input, type_of_input(*one, model), type_of_input(*two, model), n_letters)};
  for (std::size_t k = 0; k < one->outputs().size(); ++k) {
    const NamedValue& output = one->outputs()[k];
    i.outputs.push_back(spec_of(output.name, one->type(output.value), two->type(two->outputs()[k].value), n_letters));
  }
  const auto axis = std::ranges::find(i.inputs[0].axes, "T", &Axis::letter) - i.inputs[0].axes.begin();
  i.network = [model, axis](Scope& scope, const Inputs& inputs) {
    const Value x = inputs[model.input];
    TaskGraph graph;
    graph.outputs = build(scope, model, axis < x.rank() ? x.shape()[static_cast<int>(axis)] : k_one, x);
    return graph;
  };
  return i;
}

StreamModel graph_stream(const Metadata& metadata) {
  const GraphModel model = graph_of(metadata);
  StreamModel stream;
  stream.input = type_of_input(*parse_for_length(model.text, k_one), model).dtype;
  stream.blocks.output = model.output;
  stream.blocks.look_ahead = model.look_ahead;
  stream.whole = [model](Scope& scope, std::int64_t T) {
    const Value x = scope.graph().input(model.input, type_of_input(*parse_for_length(model.text, T), model));
    for (const auto& [name, value] : build(scope, model, T, x)) scope.graph().output(name, value);
  };
  return stream;
}

}  // namespace unroll
