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
  Function network;  // takes the input fields by name, returns a value or a dict of them
  // Takes what the network returned and a dict of all fields; returns a scalar, or a tuple of a sum and a count; or
  // that and a dict of metrics: a value, whose mean over all elements is reported, or such a tuple.
  Function loss;
  std::vector<std::string> inputs, targets;  // fields
};
// The loss is left out where a batch has inputs only.
Network network_with_loss(const LossNetwork& functions);
// Keys of a config, "train.lr=0.01". Throws Error(usage) on one that a trainer does not read, and warns of one without
// effect.
TrainerOptions trainer_options(const std::vector<std::string>& settings,
                               const std::function<void(const std::string&)>& warn);

struct NetworkTrainRequest {
  LossNetwork functions;
  Fields train, validation;  // no validation: a share of `train`
  DatasetOptions data;
  std::vector<std::string> settings;
  TensorMap parameters;               // initial ones; empty: drawn from the seed
  std::string folder;                 // as in TrainRequest
  bool resume = false;
  nanobind::object on_report;
  std::string backend;
  int threads = 0;
};
// As train(). Both functions are called once for each shape of batches, with Python's lock.
PythonRun train_network(const NetworkTrainRequest& request);

void add_network_training(nanobind::module_& module);

}  // namespace unroll::python
