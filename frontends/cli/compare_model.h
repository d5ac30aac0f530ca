// SPDX-License-Identifier: Apache-2.0
// What `unroll compare` compares: a task with the parameters to start from.
#pragma once

#include <memory>

#include "frontends/cli/options.h"
#include "unroll/trainer.h"

namespace unroll::cli {

struct CompareModel {
  std::shared_ptr<const Task> task;
  TrainerOptions training;
  TensorMap parameters;  // empty: drawn from the seed
};
// Of a run folder or a config its task; of a config with [model] alone the recurrent stack on random x, with the loss
// mean(y^2); of graph text the graph on the tensors of --input.
CompareModel compare_model(const Options& options);

}  // namespace unroll::cli
