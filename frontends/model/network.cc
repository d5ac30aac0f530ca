// SPDX-License-Identifier: Apache-2.0
// A network as one function: the task that trains it and the model that runs it.
#include "unroll/network.h"

#include "frontends/model/constants.h"
#include "core/support/nearest_name.h"
#include "unroll/error.h"

namespace unroll {

namespace {

Inputs inputs_like(Graph& graph, const TensorMap& tensors) {
  std::map<std::string, Value, std::less<>> values;
  for (const auto& [name, tensor] : tensors) values.emplace(name, graph.input(name, tensor.type()));
  return Inputs(std::move(values));
}

class NetworkTask : public Task {
 public:
  NetworkTask(Network network, std::map<std::string, std::string> metadata)
      : network_(std::move(network)), metadata_(std::move(metadata)) {
    if (!network_) throw Error(ErrorKind::usage, "make_task", "the network is empty");
  }
  TaskGraph build(Scope& scope, const Batch& like) const override {
    return network_(scope, inputs_like(scope.graph(), like.inputs));
  }
  std::map<std::string, std::string> metadata() const override { return metadata_; }

 private:
  Network network_;
  std::map<std::string, std::string> metadata_;
};

class DatasetTask : public NetworkTask {
 public:
  DatasetTask(TensorDataset dataset, Network network, std::map<std::string, std::string> metadata)
      : NetworkTask(std::move(network), std::move(metadata)), dataset_(std::move(dataset)) {}
  std::int64_t n_batches(Split split) const override { return dataset_.n_batches(split); }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    return dataset_.batch(split, seed, epoch, index);
  }

 private:
  TensorDataset dataset_;
};

class ExampleTask : public NetworkTask {
 public:
  ExampleTask(Batch example, Network network, std::map<std::string, std::string> metadata)
      : NetworkTask(std::move(network), std::move(metadata)), example_(std::move(example)) {}
  std::int64_t n_batches(Split) const override { return 0; }
  Batch batch(Split, std::uint64_t, std::int64_t, std::int64_t) const override {
    throw Error(ErrorKind::usage, "Task::batch", "the task has no data of its own",
                "Give it a TensorDataset, or call Trainer::update with your batches");
  }
  Batch example(std::uint64_t) const override { return example_; }

 private:
  Batch example_;
};

}  // namespace

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
  return less(iota(lengths.graph(), {steps, 1}, 0), reshape(lengths, {1, lengths.shape()[0]}));
}

std::shared_ptr<const Task> make_task(TensorDataset dataset, Network network,
                                      std::map<std::string, std::string> metadata) {
  return std::make_shared<DatasetTask>(std::move(dataset), std::move(network), std::move(metadata));
}
std::shared_ptr<const Task> make_task(Batch example, Network network, std::map<std::string, std::string> metadata) {
  return std::make_shared<ExampleTask>(std::move(example), std::move(network), std::move(metadata));
}

struct Model::State {
  Backend& backend;
  Network network;
  Constants parameters;
  std::map<std::string, std::unique_ptr<Program>> programs;  // by names and types of the inputs

  Program& program_for(const TensorMap& inputs) {
    std::string key;
    for (const auto& [name, tensor] : inputs) key += name + ":" + tensor.type().text() + ";";
    if (const auto at = programs.find(key); at != programs.end()) return *at->second;
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const TaskGraph built = network(scope, inputs_like(graph, inputs));
    if (built.outputs.empty())
      throw Error(ErrorKind::usage, "Model", "the network returns no outputs", "Name them in TaskGraph::outputs");
    for (const auto& [name, value] : built.outputs) graph.output(name, value);
    auto program = std::make_unique<Program>(*with_constants(graph, scope.parameters(), parameters, "Model"), backend);
    return *programs.emplace(std::move(key), std::move(program)).first->second;
  }
};

Model::Model(Backend& backend, Network network, TensorMap parameters)
    : state_(new State{backend, std::move(network), constants_of(parameters), {}}) {
  if (!state_->network) throw Error(ErrorKind::usage, "Model", "the network is empty");
}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

TensorMap Model::run(const TensorMap& inputs) { return state_->program_for(inputs).run(inputs); }
Result<TensorMap> Model::try_run(const TensorMap& inputs) noexcept {
  return attempt([&] { return run(inputs); });
}

}  // namespace unroll
