// SPDX-License-Identifier: Apache-2.0
// The config, data and backend of a request to train.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "frontends/config/run/job.h"
#include "frontends/python/binding/loaded_model.h"
#include "unroll/train/trainer.h"

namespace unroll::python {

struct TrainRequest {
  std::string config;  // the path of a file, or TOML text
  bool is_text = false;
  std::vector<std::string> settings;  // "section.key=value"
  std::string folder;                 // of the run; empty: no files
  bool resume = false;
  // Called with a dict for each report; returning False stops the run. None: not called.
  nanobind::object on_report;
};

struct Parts {
  cli::Config config;
  TrainerOptions options;
  std::shared_ptr<const Task> task;
  std::unique_ptr<Backend> backend;

  explicit Parts(const TrainRequest& request);
  LoadedModel model(TensorFile file) const;
};

}  // namespace unroll::python
