// SPDX-License-Identifier: Apache-2.0
// The subject of `unroll compare`: a task and its initial parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/options/command_options.h"
#include "frontends/config/run/job.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

struct RecurrentStack {
  RecurrentModelOptions model;
  RecurrentSizes sizes;
};
struct CompareModel {
  std::shared_ptr<const Task> task;
  std::optional<RecurrentStack> stack;  // set if the task is a recurrent stack
  TrainerOptions training;
  TensorMap parameters;  // empty: drawn from the seed
  std::string backend = "cpu";  // of the config
  int threads = 0;
};
// Recurrent layers on random x in [-1, 1), a new one for each batch, with the loss mean(y^2). Further outputs: "y" and
// the final states "hn", ...
std::shared_ptr<const Task> stack_task(const RecurrentModelOptions& model, const RecurrentSizes& sizes);

// Returns the task of a run folder or config, the stack_task of a config with [model] only, or a graph text on the
// tensors of --input.
struct ComparedArguments : RunArguments {
  std::string input;               // of graph text
  std::string precision;           // empty: the config's
  std::vector<std::string> with;   // other libraries, which run only the recurrent layers of a config
  bool grad = false;
  std::int64_t updates = 0;
};
CompareModel compare_model(const ComparedArguments& options);

}  // namespace unroll::cli
