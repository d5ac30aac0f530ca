// SPDX-License-Identifier: Apache-2.0
// What `unroll compare` compares: a task with the parameters to start from.
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
  std::optional<RecurrentStack> stack;  // what the task is, where it is that
  TrainerOptions training;
  TensorMap parameters;  // empty: drawn from the seed
  std::string backend = "cpu";  // of the config
  int threads = 0;
};
// Recurrent layers on random x in [-1, 1), another one for each batch, with the loss mean(y^2); further outputs "y" and
// the final states "hn", ...
std::shared_ptr<const Task> stack_task(const RecurrentModelOptions& model, const RecurrentSizes& sizes);

// Of a run folder or a config its task; of a config with [model] alone its stack_task; of graph text the graph on the
// tensors of --input.
struct ComparedArguments : RunArguments {
  std::string input;               // of graph text
  std::string precision;           // empty: the config's
  std::vector<std::string> with;   // other libraries: of a config the recurrent layers alone
  bool grad = false;
  std::int64_t updates = 0;
};
CompareModel compare_model(const ComparedArguments& options);

}  // namespace unroll::cli
