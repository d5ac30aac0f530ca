// SPDX-License-Identifier: Apache-2.0
// A network as a function: its inputs, and the model that runs it.
#include "unroll/model/network.h"

#include "core/ir/input_range.h"
#include "core/model/constants.h"
#include "core/model/network_inputs.h"
#include "core/nn/index_limits.h"
#include "core/support/text/nearest_name.h"
#include "unroll/support/error.h"

namespace unroll {

Inputs inputs_like(Graph& graph, const TensorMap& tensors) {
  std::map<std::string, Value, std::less<>> values;
  for (const auto& [name, tensor] : tensors) values.emplace(name, graph.input(name, tensor.type()));
  return Inputs(std::move(values));
}

Value Inputs::operator[](std::string_view name) const {
  if (const auto at = values_.find(name); at != values_.end()) return at->second;
  std::vector<std::string_view> known;
  for (const auto& [other, value] : values_) known.push_back(other);
  throw Error(ErrorKind::usage, "Inputs", "there is no input '" + std::string(name) + "'",
              known_names(std::string(name), known));
}

Value sequence_mask(Value lengths, std::int64_t steps) {
  if (lengths.rank() != 1 || lengths.dtype() != DType::i32)
    throw Error(ErrorKind::shape, "sequence_mask", "lengths must be i32[B]; got " + lengths.type().text());
  require_lengths(lengths, steps);
  return less(iota(lengths.graph(), {steps, 1}, 0), reshape(lengths, {1, lengths.shape()[0]}));
}

struct Model::State {
  BackendHandle backend;
  Network network;
  Constants parameters;
  struct Planned {
    std::unique_ptr<Program> program;
    std::vector<IndexLimit> limits;
  };
  std::map<std::string, Planned> programs;  // by names and types of the inputs

  Planned& program_for(const TensorMap& inputs) {
    std::string key;
    for (const auto& [name, tensor] : inputs) key += name + ":" + tensor.type().text() + ";";
    if (const auto at = programs.find(key); at != programs.end()) return at->second;
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const TaskGraph built = network(scope, inputs_like(graph, inputs));
    if (built.outputs.empty())
      throw Error(ErrorKind::usage, "Model", "the network returns no outputs", "Name them in TaskGraph::outputs");
    for (const auto& [name, value] : built.outputs) graph.output(name, value);
    const auto folded = with_constants(graph, scope.parameters(), parameters, "Model");
    auto program = std::make_unique<Program>(*folded, backend);
    return programs.emplace(std::move(key), Planned{std::move(program), index_limits(graph)}).first->second;
  }
};

Model::Model(BackendHandle backend, Network network, TensorMap parameters)
    : state_(new State{std::move(backend), std::move(network), constants_of(parameters), {}}) {
  if (!state_->network) throw Error(ErrorKind::usage, "Model", "the network is empty");
}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

TensorMap Model::run(const TensorMap& inputs) {
  State::Planned& planned = state_->program_for(inputs);
  check_indices(planned.limits, inputs);
  return planned.program->run(inputs);
}
Result<TensorMap> Model::try_run(const TensorMap& inputs) noexcept {
  return attempt([&] { return run(inputs); });
}

}  // namespace unroll
