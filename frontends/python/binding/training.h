// SPDX-License-Identifier: Apache-2.0
// Training from a config. Python's lock is released; callbacks and checks for Ctrl-C acquire it.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontends/python/binding/loaded_model.h"
#include "frontends/python/binding/training_parts.h"
#include "unroll/train/trainer.h"

namespace unroll::python {

struct FinishedRun {
  TrainResult result;
  LoadedModel model;  // best validation if a folder was written or patience ended the run; else the last update
};

// Python's class Run.
struct PythonRun {
  TrainResult result;
  nanobind::object model;
  explicit PythonRun(FinishedRun run) : result(std::move(run.result)), model(nanobind::cast(std::move(run.model))) {}
};

// Ctrl-C ends the run after its update and saves; then KeyboardInterrupt is raised, whose attribute `run` is the run.
PythonRun train(const TrainRequest& request);
// Returns the model of a config with its initial parameters. Reads the data, which determine sizes and vocabularies.
LoadedModel build(const TrainRequest& request);

// Metrics of the best checkpoint of a run folder on a split, and those of the baselines by name.
struct Evaluation {
  double loss = 0;
  std::map<std::string, double> metrics;
  std::map<std::string, std::map<std::string, double>> baselines;
};
Evaluation evaluate(const std::string& folder, const std::string& split, const std::vector<std::string>& settings);

}  // namespace unroll::python
