// SPDX-License-Identifier: Apache-2.0
// Training of a network of layer functions on arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "frontends/python/binding/training.h"
#include "frontends/python/network/value.h"
#include "unroll/data/dataset.h"

namespace unroll::python {

struct LossNetwork {
  Function network;  // receives the input fields by name; returns a value or a dict of values
  // Receives the network's result and a dict of all fields. Returns a scalar, or a tuple of a sum and a count; or one
  // of these and a dict of metrics. A metric is a value, whose mean over all elements is reported, or such a tuple.
  Function loss;
  std::vector<std::string> inputs, targets;  // fields
};
// A batch with inputs only has no loss.
Network network_with_loss(const LossNetwork& functions);
// Reads keys of a config, "train.lr=0.01". Throws Error(usage) for keys that a trainer does not read, and warns about
// keys without effect.
TrainerOptions trainer_options(const std::vector<std::string>& settings,
                               const std::function<void(const std::string&)>& warn);

struct NetworkTrainRequest {
  LossNetwork functions;
  Fields train, validation;  // no validation: a share of `train`
  DatasetOptions data;
  std::vector<std::string> settings;
  TensorMap parameters;               // initial values; empty: drawn from the seed
  std::string folder;                 // see TrainRequest
  bool resume = false;
  nanobind::object on_report;
  std::string backend;
  int threads = 0;
};
// Like train(). Calls both functions once per batch shape, with Python's lock.
PythonRun train_network(const NetworkTrainRequest& request);

void add_network_training(nanobind::module_& module);

}  // namespace unroll::python
