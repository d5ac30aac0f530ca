// SPDX-License-Identifier: Apache-2.0
// A model that runs step by step as C++.
#include <string>

#include "core/model/step_graph.h"
#include "unroll/ir/ops.h"
#include "unroll/model/stream.h"
#include "unroll/passes/cxx_source.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_source_who = "stream_source";

// The graph of a block as that of one step: x [1,1,P I] and y [1,1,R O].
std::shared_ptr<Graph> one_step(const BlockStream& block) {
  auto graph = std::make_shared<Graph>();
  const auto flat = [](const Shape& shape) { return Shape{1, 1, shape.elements()}; };
  std::vector<Value> inputs;
  for (const NamedValue& input : block.graph->inputs()) {
    const Type& type = block.graph->type(input.value);
    if (type.dtype != DType::f32 || block.delay > 0)
      throw Error(ErrorKind::unsupported, k_source_who, "a stream of ids, or one that looks ahead, has no C++ form",
                  "Use the stream of the library");
    inputs.push_back(inputs.empty() ? reshape(graph->input(input.name, {type.dtype, flat(type.shape)}), type.shape)
                                    : graph->input(input.name, type));
  }
  const std::vector<Value> outputs = inline_graph(*graph, *block.graph, inputs);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    graph->output(block.graph->outputs()[k].name, k == 0 ? reshape(outputs[0], flat(outputs[0].shape())) : outputs[k]);
  return graph;
}

// Computed on the first backend: all give the same values within rounding.
TensorMap first_states(const BlockStream& block) {
  if (!block.initial || block.initial->outputs().empty()) return {};
  const std::shared_ptr<Backend> backend = make_backend(list_backends().at(0).name);
  return evaluate(*block.initial, backend, {});
}

}  // namespace

CxxSource stream_source(const StreamModel& model, const TensorMap& parameters, const SourceOptions& options) {
  if (options.lanes < 1)
    throw Error(ErrorKind::usage, k_source_who, "lanes must be at least 1; got " + std::to_string(options.lanes));
  if (options.title.find('\n') != std::string::npos)
    throw Error(ErrorKind::usage, k_source_who, "the title must be one line");
  const BlockStream step = step_graph(model, 1, options.lanes, constants_of(parameters), k_source_who);
  const std::shared_ptr<const Graph> graph = step.initial ? one_step(step) : step.graph;
  const auto printer = make_backend("cxx:17");
  return cxx_source(*plan(*graph, *printer, {.weights = options.weights, .one_thread = true}), options.name,
                    options.title, options.separate_weights, first_states(step));
}

}  // namespace unroll
