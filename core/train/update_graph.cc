// SPDX-License-Identifier: Apache-2.0
#include "core/train/update_graph.h"

#include "unroll/autodiff.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

struct Built {
  TaskGraph task;
  std::vector<ParameterSpec> parameters;
  std::vector<MetricLayout> metrics;
};

Built build_task(const Task& task, Graph& graph, const Batch& like, bool training) {
  Scope scope(graph, training);
  Built built{task.build(scope, like), {}, {}};
  built.parameters = scope.parameters();
  TaskGraph& t = built.task;
  if (!t.loss || t.loss.rank() != 0 || !is_float(t.loss.dtype()))
    throw Error(ErrorKind::usage, "Task::build",
                "the loss must be a float scalar" + (t.loss ? "; got " + t.loss.type().text() : ""));
  if (!t.weight) t.weight = scalar_like(t.loss, 1);
  for (const MetricValue& m : t.metrics) built.metrics.push_back({m.name, m.root});
  return built;
}

// Scalars side by side, f32 [n].
Value row_of(const std::vector<Value>& scalars) {
  std::vector<Value> parts;
  for (const Value& s : scalars) parts.push_back(reshape(cast(s, DType::f32), {1}));
  return concat(parts, 0);
}

void append_metrics(std::vector<Value>& scalars, const TaskGraph& task) {
  for (const MetricValue& m : task.metrics) {
    scalars.push_back(m.total);
    scalars.push_back(m.count);
  }
}

// sqrt(sum of squares of all gradients)
Value global_norm(std::span<const Value> gradients) {
  Value total;
  for (const Value& g : gradients) {
    const Value part = sum(square(g));
    total = total ? total + part : part;
  }
  return sqrt(total);
}

// Adds residents to a graph: an input that is zero at first, and the output that replaces it.
class Residents {
 public:
  Residents(Graph& graph, std::vector<NamedType>& list) : graph_(graph), list_(list) {}
  Value input(const std::string& name, const Type& type) {
    list_.push_back({name, type});
    return graph_.input(name, type);
  }
  void state(const CarriedState& s, Value next) {
    list_.push_back({"state." + s.name, s.type});
    graph_.output("state." + s.name, next);
  }

 private:
  Graph& graph_;
  std::vector<NamedType>& list_;
};

void append_counters(TrainingGraph& t, Residents& residents, const Built& built, Value norm, Value ok) {
  Graph& graph = *t.graph;
  const Value one = scalar(graph, DType::f32, 1), zero = scalar(graph, DType::f32, 0);
  std::vector<Value> scalars{built.task.loss * built.task.weight, built.task.weight, norm, one};
  append_metrics(scalars, built.task);
  const Value row_now = row_of(scalars);
  const Value totals = residents.input(k_totals, row_now.type());
  graph.output(k_totals, totals + select(ok, row_now, zero));

  const Value bad = residents.input(k_bad, {DType::f32, {3}});
  const Value skipped = slice(bad, 0, 0, 1) + select(ok, zero, one);
  const Value run = select(ok, zero, slice(bad, 0, 1, 1) + one);
  graph.output(k_bad, concat(std::vector{skipped, run, maximum(slice(bad, 0, 2, 1), run)}, 0));
}

}  // namespace

TrainingGraph build_update(const Task& task, const Batch& like, const OptimizerRecipe& optimizer, double clip_norm) {
  TrainingGraph t;
  Graph& graph = *t.graph;
  Built built = build_task(task, graph, like, true);
  t.parameters = built.parameters;
  t.metrics = built.metrics;
  if (t.parameters.empty()) throw Error(ErrorKind::usage, "Task::build", "the model has no parameter to train");
  Residents residents(graph, t.residents);

  std::vector<Value> parameters;
  for (const ParameterSpec& p : t.parameters) parameters.push_back(graph.find_input(p.name));
  std::vector<Value> gradients = differentiate(built.task.loss, parameters);
  const Value norm = global_norm(gradients);
  const Value ok = logical_and(is_finite(norm), is_finite(built.task.loss));
  if (clip_norm > 0) {  // as torch.nn.utils.clip_grad_norm_
    const Value scale = minimum(scalar_like(norm, clip_norm) / (norm + 1e-6), scalar_like(norm, 1));
    for (Value& g : gradients) g = g * scale;
  }

  const Value lr = graph.input("lr", {DType::f32, {}}), update = graph.input("update", {DType::i32, {}});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = t.parameters[i].name;
    std::vector<Value> old{parameters[i]}, slots;
    for (const std::string& slot : optimizer.slots())
      slots.push_back(residents.input("optimizer." + slot + "." + name, parameters[i].type()));
    old.insert(old.end(), slots.begin(), slots.end());
    const std::vector<Value> next = optimizer.update(parameters[i], gradients[i], slots, lr, update);
    for (std::size_t k = 0; k < next.size(); ++k)
      graph.output(k == 0 ? name : "optimizer." + optimizer.slots()[k - 1] + "." + name, select(ok, next[k], old[k]));
  }
  for (const CarriedState& s : built.task.states) residents.state(s, select(ok, s.out, s.in));
  append_counters(t, residents, built, norm, ok);
  return t;
}

EvaluationGraph build_evaluation(const Task& task, const Batch& like) {
  EvaluationGraph e;
  const Built built = build_task(task, *e.graph, like, false);
  e.parameters = built.parameters;
  e.metrics = built.metrics;
  std::vector<Value> scalars{built.task.loss * built.task.weight, built.task.weight};
  append_metrics(scalars, built.task);
  e.graph->output("report", row_of(scalars));
  Residents residents(*e.graph, e.residents);
  for (const CarriedState& s : built.task.states) residents.state(s, s.out);
  return e;
}

}  // namespace unroll
