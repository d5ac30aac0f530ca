// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_model.h"

#include "core/train/control.h"
#include "core/train/bad_value.h"
#include "core/train/metrics.h"
#include "unroll/error.h"

namespace unroll {

namespace {

std::string signature(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] : batch.inputs) text += name + ":" + tensor.type().text() + ";";
  return text;
}
std::string signature(const std::vector<NamedType>& list) {
  std::string text;
  for (const NamedType& n : list) text += n.name + ":" + n.type.text() + ";";
  return text;
}

std::vector<double> doubles(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

Batch any_batch(const Task& task, std::uint64_t seed) {
  for (const Split split : {Split::train, Split::validation, Split::test})
    if (task.n_batches(split) > 0) return task.batch(split, seed, 0, 0);
  throw Error(ErrorKind::usage, "trainer", "the task has no batch in any split");
}

}  // namespace

DeviceModel::DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options)
    : task_(std::move(task)),
      backend_(backend),
      seed_(options.seed),
      recipe_(options),
      accumulate_(options.accumulate),
      plan_options_{.precision = options.precision, .memory_limit = options.memory_limit},
      parameters_(backend),
      carried_(backend),
      accumulated_(backend) {
  const EvaluationGraph forward = build_evaluation(*task_, any_batch(*task_, seed_));
  metrics_ = forward.metrics;
  parameter_rules(recipe_.optimizer_options, recipe_.groups, forward.parameters);  // a group without parameter is an error
  TensorMap initial = initialize(forward.parameters, seed_);
  for (const auto& [name, tensor] : initial) {
    parameters_.add(name, tensor.type());
    if (recipe_.averages) carried_.add(k_average_prefix + name, tensor.type());
  }
  set_parameters(initial, "initial values");
}

BoundProgram& DeviceModel::program_for_update(const Batch& batch, Phase phase) {
  std::unique_ptr<BoundProgram>& program = updates_[std::to_string(static_cast<int>(phase)) + signature(batch)];
  if (program) return *program;
  const TrainingGraph graph = build_update(*task_, batch, recipe_, phase);
  for (const NamedType& r : graph.residents) {
    DeviceTensors& set = r.name.starts_with("accumulated.") ? accumulated_ : carried_;
    if (set.has(r.name) && set.type(r.name) == r.type) continue;
    set.add(r.name, r.type);
    if (r.initial != 0) set.upload(r.name, Tensor::filled(r.type, r.initial));
  }
  const Residency sets[] = {{&parameters_}, {&carried_}, {&accumulated_}};
  program = std::make_unique<BoundProgram>(*graph.graph, sets, backend_, plan_options_);
  return *program;
}

DeviceModel::Watching& DeviceModel::program_for_watch(const Batch& batch, Phase phase) {
  Watching& w = watching_[std::to_string(static_cast<int>(phase)) + signature(batch)];
  if (w.program) return w;
  const WatchGraph graph = build_watch(*task_, batch, recipe_, phase);
  w.parameters = graph.parameters;
  w.loops = graph.loops;
  const Residency sets[] = {{&parameters_}, {&carried_}, {&accumulated_}};
  w.program = std::make_unique<BoundProgram>(*graph.training.graph, sets, backend_, plan_options_);
  return w;
}

DeviceModel::Evaluation& DeviceModel::program_for_evaluation(const Batch& batch) {
  Evaluation& e = evaluations_[signature(batch)];
  if (e.program) return e;
  const EvaluationGraph graph = build_evaluation(*task_, batch);
  std::unique_ptr<DeviceTensors>& states = eval_states_[signature(graph.residents)];
  if (!states) states = std::make_unique<DeviceTensors>(backend_);
  for (const NamedType& r : graph.residents) states->add(r.name, r.type);
  e.states = states.get();
  e.report = Tensor(graph.graph->type(graph.graph->outputs()[0].value));
  const Residency sets[] = {{states.get()}, {&carried_, k_average_prefix}, {&parameters_}};
  e.program = std::make_unique<BoundProgram>(*graph.graph, sets, backend_, plan_options_);
  return e;
}

void DeviceModel::update(std::span<const Batch> batches, const UpdateInputs& inputs) {
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const bool last = i + 1 == batches.size();
    const Phase phase = batches.size() == 1 ? Phase::whole : last ? Phase::apply : Phase::gather;
    run_update(batches[i], phase, inputs, draw_of(inputs.update) + static_cast<std::int64_t>(i));
  }
}

void DeviceModel::run_update(const Batch& batch, Phase phase, const UpdateInputs& inputs, std::int64_t draw) {
  BoundProgram& program = program_for_update(batch, phase);
  if (batch.starts_stream)
    for (const std::string& name : carried_.names())
      if (name.starts_with("state.")) carried_.clear(name);
  const Tensor control = control_of({inputs.lr, inputs.average_rate, seed_, draw, inputs.update});
  if (inputs.watch && phase != Phase::gather) watch(batch, phase, control, inputs.update);
  for (const auto& [name, tensor] : batch.inputs) program.set(name, tensor);
  program.set(k_control, control);
  program.run();
}

void DeviceModel::watch(const Batch& batch, Phase phase, const Tensor& control, std::int64_t update) {
  Watching& w = program_for_watch(batch, phase);
  for (const auto& [name, tensor] : batch.inputs) w.program->set(name, tensor);
  w.program->set(k_control, control);
  w.program->run();
  const auto n = static_cast<std::int64_t>(2 * (w.parameters.size() + w.loops.size()));
  Tensor values(Type{DType::f32, {n}});
  w.program->download_into(k_watched, values);
  std::int64_t at = 0;
  const auto next = [&] { return values.at(at++); };
  watched_ = Watch{.update = update, .parameters = {}, .loops = {}};
  for (const std::string& name : w.parameters) {
    const double gradient_norm = next();
    watched_->parameters[name] = {gradient_norm, next()};
  }
  for (const std::string& name : w.loops) {
    const double saturated = next();
    watched_->loops[name] = {saturated, next()};
  }
}

TensorMap DeviceModel::averages() const {
  TensorMap tensors = parameters();
  for (auto& [name, tensor] : tensors)
    if (const std::string average = k_average_prefix + name; carried_.has(average)) tensor = carried_.download(average);
  return tensors;
}

void DeviceModel::set_parameters(const TensorMap& tensors, const std::string& source) {
  restore(parameters_, tensors, source);
  for (const auto& [name, tensor] : tensors)
    if (const std::string average = k_average_prefix + name; carried_.has(average)) carried_.upload(average, tensor);
}

EvaluateResult DeviceModel::evaluate(Split split, std::int64_t at_most) {
  const std::int64_t n = task_->n_batches(split), count = at_most > 0 ? std::min(at_most, n) : n;
  std::vector<double> sums(2 + n_sums(metrics_), 0.0);
  for (std::int64_t index = 0; index < count; ++index) {
    const Batch batch = task_->batch(split, seed_, 0, index);
    Evaluation& e = program_for_evaluation(batch);
    if (batch.starts_stream)
      for (const std::string& name : e.states->names()) e.states->clear(name);
    for (const auto& [name, tensor] : batch.inputs) e.program->set(name, tensor);
    e.program->run();
    e.program->download_into("report", e.report);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(e.report.values<float>()[i]);
  }
  return {sums[1] == 0 ? 0 : sums[0] / sums[1], metric_values(metrics_, std::span(sums).subspan(2))};
}

std::vector<double> DeviceModel::totals() const { return doubles(carried_.download(k_totals)); }
DeviceModel::BadUpdates DeviceModel::bad() const {
  const Tensor counters = carried_.download(k_bad);
  const auto at = [&](std::int64_t i) { return static_cast<std::int64_t>(counters.at(i)); };
  return {at(0), at(1), at(2), at(3)};
}

std::string DeviceModel::first_bad_value(std::span<const Batch> batches, std::int64_t update) const {
  TensorMap tensors = parameters();
  for (const std::string& name : carried_.names())
    if (name.starts_with("state.")) tensors.emplace(name, carried_.download(name));
  std::int64_t draw = draw_of(update);
  for (const Batch& batch : batches) {
    tensors.insert_or_assign("key", key_of(seed_, draw++));
    const std::string found = unroll::first_bad_value(*task_, batch, tensors, backend_, plan_options_.precision,
                                                      loss_scale());
    if (!found.empty()) return found;
  }
  return {};
}

TensorMap DeviceModel::downloaded(const DeviceTensors& set) {
  TensorMap tensors;
  for (const std::string& name : set.names()) tensors.emplace(name, set.download(name));
  return tensors;
}

void DeviceModel::restore(DeviceTensors& set, const TensorMap& tensors, const std::string& source) {
  const std::string next = "The model or the optimizer differs from the one that wrote it";
  for (const std::string& name : set.names()) {
    const auto at = tensors.find(name);
    if (at == tensors.end()) throw Error(ErrorKind::input_file, source, "has no tensor '" + name + "'", next);
    if (at->second.type() != set.type(name))
      throw Error(ErrorKind::input_file, source,
                  "'" + name + "' must be " + set.type(name).text() + "; got " + at->second.type().text(), next);
  }
  for (const auto& [name, tensor] : tensors)
    if (!set.has(name)) throw Error(ErrorKind::input_file, source, "the model has no tensor '" + name + "'", next);
  for (const auto& [name, tensor] : tensors) set.upload(name, tensor);
}

}  // namespace unroll
