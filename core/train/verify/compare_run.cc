// SPDX-License-Identifier: Apache-2.0
#include "core/train/verify/compare_run.h"

#include "core/support/tensor_role.h"
#include "core/train/device/options.h"
#include "core/train/update/control.h"
#include "core/train/update/schedule.h"
#include "core/train/verify/rounding.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::string types_of(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] : batch.inputs) text += name + ":" + tensor.type().text() + ";";
  return text;
}

// All or none are given.
void require_parameters(const std::vector<ParameterSpec>& wanted, const TensorMap& given) {
  if (given.empty()) return;
  const std::string next = "The parameters are those of another model";
  for (const ParameterSpec& p : wanted) {
    const auto at = given.find(p.name);
    if (at == given.end())
      throw Error(ErrorKind::input_file, "compare", "there is no parameter '" + p.name + "'", next);
    if (at->second.type() != p.type)
      throw Error(ErrorKind::input_file, "compare",
                  p.name + ": expected " + p.type.text() + ", got " + at->second.type().text(), next);
  }
  if (given.size() > wanted.size())
    throw Error(ErrorKind::input_file, "compare",
                "there are " + std::to_string(given.size()) + " parameters; the model has " +
                    std::to_string(wanted.size()),
                next);
}

}  // namespace

Pass build_pass(const Task& task, const Batch& batch, const CompareOptions& options) {
  Pass pass;
  Scope scope(*pass.graph, /*training=*/options.gradients);
  const TaskGraph t = task.build(scope, batch);
  pass.parameters = scope.parameters();
  Value loss = t.loss;
  if (options.gradients)
    for (const Value penalty : scope.penalties()) loss = loss + cast(penalty, loss.dtype());
  pass.graph->output("loss", loss);
  for (const MetricValue& m : t.metrics) pass.graph->output("metric." + m.name, m.total);
  for (const auto& [name, value] : t.outputs) pass.graph->output(name, value);
  for (const CarriedState& s : t.states) pass.graph->output(state_name(s.name) + ".next", s.out);
  if (options.gradients) {
    std::vector<Value> by;
    for (const ParameterSpec& p : pass.parameters) by.push_back(pass.graph->find_input(p.name));
    const std::vector<Value> gradients = differentiate(loss, by);
    for (std::size_t i = 0; i < by.size(); ++i) pass.graph->output("d_" + pass.parameters[i].name, gradients[i]);
  }
  require_parameters(pass.parameters, options.parameters);
  pass.inputs = batch.inputs;
  pass.inputs.insert(options.parameters.begin(), options.parameters.end());
  pass.inputs.merge(initialize(pass.parameters, options.training.seed));
  TensorMap used;
  for (const NamedValue& input : pass.graph->inputs()) {  // what is left starts as zeros: carried states
    const Type& type = pass.graph->type(input.value);
    if (input.name == "key") pass.inputs.emplace(input.name, key_of(options.training.seed, 1));
    const Tensor& tensor = pass.inputs.try_emplace(input.name, type).first->second;
    used.emplace(input.name, tensor);
  }
  pass.inputs = std::move(used);
  return pass;
}

std::shared_ptr<Graph> in_f64(const Graph& graph, const Backend& verifier, const PlanOptions& options, Arithmetic how) {
  const auto lowered = lower(graph, verifier, options);
  return how.sample == 0 ? widened(*lowered) : with_rounding_noise(*lowered, how.sample);
}

TensorMap widened(const TensorMap& tensors) {
  TensorMap result = tensors;
  for (auto& [name, tensor] : result)
    if (tensor.dtype() == DType::f32) tensor = tensor.cast(DType::f64);
  return result;
}

UpdateLoop::UpdateLoop(const Task& task, Backend& backend, const CompareOptions& options, const TensorMap& parameters,
                       Arithmetic how)
    : task_(task), backend_(backend), options_(options),
      plan_options_(plan_options(options.training)),
      config_(options.training), how_(how), tensors_(how.wide ? widened(parameters) : parameters) {}

Batch UpdateLoop::batch_of(std::int64_t update) const {
  const std::int64_t n = task_.n_batches(Split::train);
  return task_.batch(Split::train, options_.training.seed, (update - 1) / n, (update - 1) % n);
}

UpdateLoop::Compiled& UpdateLoop::compiled(const Batch& batch) {
  Compiled& c = compiled_[types_of(batch)];
  if (c.program) return c;
  c.training = build_update(task_, batch, config_, Phase::whole);
  if (how_.wide) c.training.graph = in_f64(*c.training.graph, backend_, plan_options_, how_);
  for (const NamedType& r : c.training.buffers) {
    const Type type{how_.wide && r.type.dtype == DType::f32 ? DType::f64 : r.type.dtype, r.type.shape};
    tensors_.try_emplace(r.name, Tensor::filled(type, r.initial));
  }
  c.program = std::make_unique<Program>(*c.training.graph, backend_, how_.wide ? PlanOptions{} : plan_options_);
  return c;
}

const Graph& UpdateLoop::graph() { return *compiled(batch_of(update_ + 1)).training.graph; }

TensorMap UpdateLoop::inputs() {
  const std::int64_t update = update_ + 1;
  const Batch batch = batch_of(update);
  const TrainerOptions& t = options_.training;
  const TrainingGraph& training = compiled(batch).training;
  for (auto& [name, tensor] : tensors_)
    if ((batch.starts_stream && role_of(name) == TensorRole::state) || name == k_totals) tensor = Tensor(tensor.type());
  TensorMap given = batch.inputs;
  const double lr = scheduled_lr(t.schedule, t.optimizer.lr, update, t.max_updates);
  given.emplace(k_control, control_of({lr, /*average_rate=*/1, t.seed, /*draw=*/update, update}));
  if (how_.wide) given = widened(given);
  TensorMap inputs;
  for (const NamedValue& input : training.graph->inputs()) {
    const auto at = given.find(input.name);
    inputs.emplace(input.name, at != given.end() ? at->second : tensors_.at(input.name));
  }
  return inputs;
}

double UpdateLoop::step() {
  const TensorMap given = inputs();
  for (auto& [name, tensor] : compiled(batch_of(update_ + 1)).program->run(given))
    tensors_.insert_or_assign(name, std::move(tensor));
  ++update_;
  const Tensor& totals = tensors_.at(k_totals);
  return totals.at(0) / totals.at(1);
}

}  // namespace unroll
