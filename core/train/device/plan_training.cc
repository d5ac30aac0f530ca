// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/plan_training.h"

#include "core/train/device/programs.h"
#include "core/train/device/options.h"
#include "core/train/update/update_graph.h"

namespace unroll {

void plan_training(const Task& task, Backend& backend, const TrainerOptions& options) {
  const PlanOptions how = plan_options(options);
  const auto compile = [&](const Graph& graph) { Program(graph, backend, donating(graph, how)); };
  const auto first_of = [&](Split split) { return task.batch(split, options.seed, 0, 0); };
  const Batch batch = first_of(Split::train);
  const UpdateConfig config(options);
  std::vector<Phase> phases{Phase::whole};
  if (options.accumulate > 1) phases = {Phase::accumulate, Phase::step};
  for (const Phase phase : phases) {
    const TrainingGraph update = build_update(task, batch, config, phase, {options.accumulate});
    compile(*update.graph);
  }
  if (task.n_batches(Split::validation) > 0) compile(*build_evaluation(task, first_of(Split::validation)).graph);
}

}  // namespace unroll
