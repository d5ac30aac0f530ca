// SPDX-License-Identifier: Apache-2.0
// The task that trains a network.
#include "core/model/network_inputs.h"
#include "unroll/model/network.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

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

std::shared_ptr<const Task> make_task(TensorDataset dataset, Network network,
                                      std::map<std::string, std::string> metadata) {
  return std::make_shared<DatasetTask>(std::move(dataset), std::move(network), std::move(metadata));
}
std::shared_ptr<const Task> make_task(Batch example, Network network, std::map<std::string, std::string> metadata) {
  return std::make_shared<ExampleTask>(std::move(example), std::move(network), std::move(metadata));
}

}  // namespace unroll
