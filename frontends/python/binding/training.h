// SPDX-License-Identifier: Apache-2.0
// Training from a config. Python's lock is released; it is taken for callbacks and to see Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "frontends/python/binding/loaded_model.h"
#include "unroll/train/trainer.h"

namespace unroll::python {

struct FinishedRun {
  TrainResult result;
  LoadedModel model;  // of the best validation where a folder was written, or patience ended the run; else the last
};

// The class Run of Python.
struct PythonRun {
  TrainResult result;
  nanobind::object model;
  explicit PythonRun(FinishedRun run) : result(std::move(run.result)), model(nanobind::cast(std::move(run.model))) {}
};

struct TrainRequest {
  std::string config;  // the path of a file; or its text
  bool is_text = false;
  std::vector<std::string> settings;  // "section.key=value"
  std::string folder;                 // of the run; empty: nothing is written
  bool resume = false;
  // Called with a dict for each report; returning False stops the run. None: not called.
  nanobind::object on_report;
};
// A Ctrl-C ends the run after its update and saves; then KeyboardInterrupt is raised, whose attribute `run` is the run.
PythonRun train(const TrainRequest& request);
// The model of a config with its initial parameters. Its data are read, since sizes and vocabularies follow from them.
LoadedModel build(const TrainRequest& request);

}  // namespace unroll::python
