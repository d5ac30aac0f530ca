// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/built_task.h"

#include <set>
#include <string>

#include "core/support/tensor_role.h"
#include "core/train/update/control.h"
#include "core/train/update/loss_weight.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Two constant weights have the same ratio in every batch of equal steps.
bool weighs_alike(Value penalty, Value loss) {
  return !penalty || (penalty.node().op == Op::constant && loss.node().op == Op::constant);
}

}  // namespace

Batch Task::example(std::uint64_t seed) const {
  for (const Split split : {Split::train, Split::validation, Split::test})
    if (n_batches(split) > 0) return batch(split, seed, 0, 0);
  throw Error(ErrorKind::usage, "trainer", "the task has no batch in any split");
}

void require_sources(const Graph& graph, const TaskGraph& task, const Batch& like, const Scope& scope) {
  std::set<std::string> known{k_control};
  for (const auto& [name, tensor] : like.inputs) known.insert(name);
  for (const ParameterSpec& p : scope.parameters()) known.insert(p.name);
  for (const CarriedState& s : task.states) known.insert(state_name(s.name));
  if (!scope.training()) known.insert("key");  // of random draws: the same ones in every evaluation
  for (const NamedValue& input : graph.inputs())
    if (!known.contains(input.name))
      throw Error(ErrorKind::usage, "Task::build",
                  "input '" + input.name + "' is in no batch and is neither a parameter nor a carried state",
                  "Add it to Batch::inputs, or name the state in TaskGraph::states");
}

Built build_task(const Task& task, Graph& graph, const Batch& like, bool training, Value key, bool in_parts) {
  Scope scope(graph, training);
  if (key) scope.use_key(key);
  Built built{task.build(scope, like)};
  built.parameters = scope.parameters();
  TaskGraph& t = built.task;
  require_sources(graph, t, like, scope);
  if (!t.loss || t.loss.rank() != 0 || !is_float(t.loss.dtype()))
    throw Error(ErrorKind::usage, "Task::build",
                "the loss must be a float scalar" + (t.loss ? "; got " + t.loss.type().text() : ""));
  if (!t.weight) state_weight(scope, t, scalar_like(t.loss, 1));
  for (std::size_t i = 0; training && i < scope.penalties().size(); ++i) {
    const Value penalty = scope.penalties()[i], weight = scope.penalty_weights()[i];
    if (in_parts && !weighs_alike(weight, t.weight)) built.terms.push_back({penalty, weight});
    else t.loss = t.loss + cast(penalty, t.loss.dtype());
  }
  for (const MetricValue& m : t.metrics) {
    if (m.total.shape() != m.count.shape() || m.total.rank() > 1)
      throw Error(ErrorKind::usage, "Task::build",
                  "total and count of metric '" + m.name + "' must be scalars or of one length; got " +
                      m.total.type().text() + " and " + m.count.type().text());
    built.metrics.push_back({m.name, m.form, m.total.shape().elements(), m.scale});
  }
  return built;
}

Value row_of(const std::vector<Value>& values) {
  std::vector<Value> parts;
  for (const Value& v : values) parts.push_back(reshape(cast(v, DType::f32), {v.shape().elements()}));
  return concat(parts, 0);
}

Value sums_of(const Built& built) {
  const TaskGraph& task = built.task;
  std::vector<Value> values{task.loss * task.weight, task.weight};
  for (const MetricValue& m : task.metrics) {
    values.push_back(m.total);
    values.push_back(m.count);
  }
  for (const LossTerm& term : built.terms) {
    values.push_back(term.value * cast(term.weight, term.value.dtype()));
    values.push_back(term.weight);
  }
  return row_of(values);
}

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
