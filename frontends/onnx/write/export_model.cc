// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/support/tensor_role.h"
#include "frontends/onnx/export.h"
#include "frontends/onnx/write/emitter.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::onnx {
namespace {

constexpr std::size_t k_most_bytes = std::size_t{1} << 31;  // protobuf cannot describe more

void require_size(std::size_t bytes) {
  if (bytes >= k_most_bytes)
    throw Error(ErrorKind::unsupported, "export", "the model is larger than 2 GiB, the limit of an ONNX file",
                "Write the weights to a second file with --external-data");
}

bool is_state(const Inference& inference, const std::string& name) {
  return std::find(inference.states.begin(), inference.states.end(), name) != inference.states.end();
}

// One build of the network. States that are not model inputs are zeros.
struct Build {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<ParameterSpec> parameters;
};

Build build_network(const Inference& inference, const Sizes& sizes, std::size_t build, bool with_states) {
  Build b;
  Scope scope(*b.graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> values;
  for (const TensorSpec& spec : inference.inputs) {
    const Type type{spec.dtype, sizes.shape(spec, build)};
    const bool is_zero = !with_states && is_state(inference, spec.name);
    values.emplace(spec.name, is_zero ? filled(*b.graph, type, 0) : b.graph->input(spec.name, type));
  }
  const TaskGraph built = inference.network(scope, Inputs(std::move(values)));
  for (const TensorSpec& spec : inference.outputs) {
    if (!with_states && is_state(inference, spec.name)) continue;
    const auto found = std::find_if(built.outputs.begin(), built.outputs.end(),
                                    [&](const auto& output) { return output.first == spec.name; });
    if (found == built.outputs.end())
      throw Error(ErrorKind::internal, "export", "output '" + spec.name + "' is missing");
    b.graph->output(spec.name, found->second);
  }
  b.parameters = scope.parameters();
  return b;
}

std::vector<Operand> operands_of(const Graph& graph, const std::vector<ParameterSpec>& specs,
                                 const TensorMap& parameters) {
  std::map<std::string, Type> wanted;
  for (const ParameterSpec& spec : specs) wanted.emplace(spec.name, spec.type);
  for (const auto& [name, tensor] : parameters)
    if (!wanted.contains(name))
      throw Error(ErrorKind::input_file, "export", "the model has no parameter '" + name + "'");
  std::vector<Operand> operands;
  for (const NamedValue& input : graph.inputs()) {
    const auto spec = wanted.find(input.name);
    if (spec == wanted.end()) {
      operands.push_back({input.name});
      continue;
    }
    const auto found = parameters.find(input.name);
    if (found == parameters.end() || found->second.type() != spec->second) {
      throw Error(ErrorKind::input_file, "export",
                  "parameter '" + input.name + "' must be " + spec->second.text() + "; " +
                      (found == parameters.end() ? "there is none" : "got " + found->second.type().text()));
    }
    operands.push_back({.tensor = std::make_shared<const Tensor>(found->second), .label = input.name});
  }
  return operands;
}

Axis letter(const char* name) { return {name, 0}; }
Axis fixed(std::int64_t size) { return {{}, size}; }

// Returns the width of the output y [T,B,O], which is known after the build.
std::int64_t width_of_y(const Inference& i) {
  const Inference y{.inputs = i.inputs, .outputs = {{"y", DType::f32, {}}}, .states = i.states, .network = i.network};
  const Build b = build_network(y, Sizes(y), 0, /*with_states=*/true);
  return b.graph->type(b.graph->outputs()[0].value).shape[2];
}

TaskGraph y_and_states(const CellLayerResult& result, const std::vector<std::string>& names) {
  TaskGraph graph;
  graph.outputs.emplace_back("y", result.y);
  for (std::size_t k = 0; k < names.size(); ++k) graph.outputs.emplace_back(names[k], result.states[k]);
  return graph;
}

}  // namespace

std::int64_t shortest_steps(const Inference& inference) {
  constexpr std::int64_t k_longest = 4096;
  for (std::int64_t factor = 1; factor <= k_longest; factor *= 4) {
    const auto built = attempt([&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      std::map<std::string, Value, std::less<>> values;
      for (const TensorSpec& spec : inference.inputs) {
        std::vector<std::int64_t> dims;
        for (const Axis& axis : spec.axes) {
          dims.push_back(axis.letter.empty() ? axis.size : 1);
          for (std::size_t n = letters_of(axis).size(); n > 0; --n) dims.back() *= 2 * factor;
        }
        values.emplace(spec.name, graph.input(spec.name, {spec.dtype, Shape(dims)}));
      }
      inference.network(scope, Inputs(std::move(values)));
      return true;
    });
    if (built || built.error().kind() != ErrorKind::shape) return factor;
  }
  return 1;
}

ExportedModel export_model(const Inference& inference, const TensorMap& parameters, bool with_states,
                           const std::map<std::string, std::string>& properties,
                           const std::string& external_data) {
  if (with_states && inference.states.empty())
    throw Error(ErrorKind::unsupported, "export", "the model has no states");
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : parameters)
    if (external_data.empty()) bytes += tensor.bytes().size();
  require_size(bytes);
  const Sizes sizes(inference, shortest_steps(inference));
  std::vector<Build> built;
  Builds builds;
  for (std::size_t k = 0; k < sizes.builds(); ++k) {
    built.push_back(build_network(inference, sizes, k, with_states));
    builds.push_back(built.back().graph.get());
  }
  Emitter emitter(inference, sizes, external_data);
  const std::vector<Operand> results = emitter.graph(builds, operands_of(*builds[0], built[0].parameters, parameters));
  for (const TensorSpec& spec : inference.inputs)
    if (with_states || !is_state(inference, spec.name)) emitter.input(spec);
  std::vector<std::pair<std::string, std::string>> states;
  std::size_t next = 0;
  for (TensorSpec spec : inference.outputs) {
    if (is_state(inference, spec.name)) {
      if (!with_states) continue;
      states.emplace_back(spec.name, spec.name + ".next");
      spec.name += ".next";
    }
    emitter.output(spec, results[next++]);
  }
  ExportedModel model = emitter.model("unroll", properties);
  model.states = std::move(states);
  require_size(model.bytes.size());
  return model;
}

Inference stream_inference(const StreamModel& stream) {
  const bool ids = stream.input == DType::i32;
  const std::string in = ids ? "ids" : "x";
  Inference i{.inputs = {{in, stream.input, {letter("T"), letter("B")}}}, .outputs = {}, .states = {}, .network = {}};
  if (!ids) i.inputs[0].axes.push_back(fixed(stream.inputs));
  for (const Shape& shape : stream.state_shapes(1)) {
    i.states.push_back(state_name(i.states.size()));
    i.inputs.push_back({i.states.back(), DType::f32, {fixed(shape[0]), letter("B"), fixed(shape[2])}});
  }
  i.network = [stream, in, names = i.states](Scope& scope, const Inputs& inputs) {
    std::vector<Value> states;
    for (const std::string& name : names) states.push_back(inputs[name]);
    return y_and_states(stream.build(scope, inputs[in], states), names);
  };
  i.outputs.push_back({"y", DType::f32, {letter("T"), letter("B"), fixed(width_of_y(i))}});
  i.outputs.insert(i.outputs.end(), i.inputs.begin() + 1, i.inputs.end());
  return i;
}

Inference stack_inference(const RecurrentModelOptions& options, std::int64_t inputs, bool lengths) {
  Inference i{.inputs = {{"x", DType::f32, {letter("T"), letter("B"), fixed(inputs)}}}, .outputs = {},
              .states = recurrent_state_names(options), .network = {}};
  const std::vector<Shape> shapes = recurrent_state_shapes(options, 1, inputs);
  std::vector<TensorSpec> states;
  for (std::size_t k = 0; k < shapes.size(); ++k)
    states.push_back({i.states[k], DType::f32, {fixed(shapes[k][0]), letter("B"), fixed(shapes[k][2])}});
  if (lengths) i.inputs.push_back({"lengths", DType::i32, {letter("B")}});
  i.inputs.insert(i.inputs.end(), states.begin(), states.end());
  i.network = [options, lengths, names = i.states](Scope& scope, const Inputs& in) {
    std::vector<Value> initial;
    for (const std::string& name : names) initial.push_back(in[name]);
    return y_and_states(
        recurrent_model(scope, in["x"], options, initial, lengths ? in["lengths"] : Value()), names);
  };
  i.outputs.push_back({"y", DType::f32, {letter("T"), letter("B"), fixed(width_of_y(i))}});
  i.outputs.insert(i.outputs.end(), states.begin(), states.end());
  return i;
}

}  // namespace unroll::onnx
