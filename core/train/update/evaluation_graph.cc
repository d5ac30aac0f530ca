// SPDX-License-Identifier: Apache-2.0
// The graphs of a task without gradients: evaluation and prediction.
#include "core/train/update/update_graph.h"
#include "unroll/support/error.h"

namespace unroll {

EvaluationGraph build_evaluation(const Task& task, const Batch& like, bool counts) {
  EvaluationGraph e;
  const Built built = build_task(task, *e.graph, like, false);
  e.parameters = built.parameters;
  e.metrics = built.metrics;
  e.graph->output(k_report, sums_of(built));
  if (counts)
    for (const auto& [name, value] : built.task.counts) e.graph->output(k_count_prefix + name, value);
  GraphBuffers buffers(*e.graph, e.buffers);
  for (const CarriedState& s : built.task.states) buffers.carry(s, s.out);
  return e;
}

EvaluationGraph build_prediction(const Task& task, const Batch& like) {
  EvaluationGraph e;
  Scope scope(*e.graph, /*training=*/false);
  const TaskGraph built = task.build(scope, like);
  require_sources(*e.graph, built, like, scope);
  if (built.outputs.empty())
    throw Error(ErrorKind::usage, "Task::build", "returns no outputs to predict", "Name them in TaskGraph::outputs");
  e.parameters = scope.parameters();
  for (const auto& [name, value] : built.outputs) e.graph->output(k_output_prefix + name, value);
  GraphBuffers buffers(*e.graph, e.buffers);
  for (const CarriedState& s : built.states) buffers.carry(s, s.out);
  return e;
}

}  // namespace unroll
