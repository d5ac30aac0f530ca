// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/device_model.h"

#include "core/support/sum_tree.h"
#include "core/support/tensor_role.h"
#include "core/train/device/first_nonfinite.h"
#include "core/train/device/memory_limit.h"
#include "core/train/device/options.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Communicator* ranks_of(const Backend& backend) {
  Communicator* const ranks = backend.communicator();
  return ranks && ranks->size() > 1 ? ranks : nullptr;
}

// The initial parameters with the values of TrainerOptions::start.
TensorMap starting(TensorMap parameters, const TensorMap& start) {
  for (const auto& [name, tensor] : start) {
    const auto at = parameters.find(name);
    if (at == parameters.end())
      throw Error(ErrorKind::usage, "TrainerOptions::start", "the model has no parameter '" + name + "'");
    const Type &got = tensor.type(), &wanted = at->second.type();
    if (got != wanted)
      throw Error(got.dtype == wanted.dtype ? ErrorKind::shape : ErrorKind::type, "TrainerOptions::start",
                  "'" + name + "' must be " + wanted.text() + "; got " + got.text());
    at->second = tensor;
  }
  return parameters;
}

// The shards whose states this rank carries.
std::vector<std::int64_t> shards_of(const Task& task, std::int64_t accumulate, const UpdateShare& share) {
  const MicroBatches own = micro_batches_of(task.shards() > 1 ? accumulate : 1, share.rank, share.ranks);
  std::vector<std::int64_t> shards;
  for (std::int64_t shard = own.begin; shard < own.end; ++shard) shards.push_back(shard);
  return shards;
}

}  // namespace

DeviceModel::DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options)
    : DeviceModel(task, backend, options, [&] {
        Batch batch = task->example(options.seed);
        EvaluationGraph forward = build_evaluation(*task, batch);
        return Example{std::move(batch), std::move(forward)};
      }()) {}

DeviceModel::DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
                         const Example& example)
    : task_(std::move(task)),
      seed_(options.seed),
      accumulate_(options.accumulate),
      ranks_(ranks_of(backend)),
      example_(ranks_ ? example.batch : Batch()),
      stages_(options.stage),
      programs_(backend, plan_options(options),
                options.machine_memory > 0 ? options.machine_memory : memory_for(backend), stages_),
      tensors_(backend, shards_of(*task_, accumulate_, share_of(accumulate_)), ranks_ != nullptr),
      updates_(*task_, config_of(options, example), programs_, tensors_),
      accumulator_(task_->shards(), updates_, tensors_),
      evaluator_(*task_, example.forward, seed_, programs_, tensors_, stages_, ranks_) {
  tensors_.add_parameters(starting(initialize(example.forward.parameters, seed_), options.start),
                          updates_.config().averages);
}

// Refuses a task, or options, that do not fit each other before anything is allocated or differentiated.
UpdateConfig DeviceModel::config_of(const TrainerOptions& options, const Example& example) const {
  UpdateConfig config(options);
  const std::vector<ParameterSpec>& parameters = example.forward.parameters;
  parameter_rules(config.optimizer_options, config.groups, parameters);  // a group without parameter is an error
  require_shards(example.forward);
  for (const ParameterSpec& p : parameters)
    if (role_of(p.name) != TensorRole::parameter)
      throw Error(ErrorKind::usage, "trainer", "parameter '" + p.name + "' has a name that checkpoints reserve",
                  "Names must not begin with optimizer., average., state., trainer. or accumulated.");
  std::size_t bytes = 0;
  for (const ParameterSpec& p : parameters) bytes += p.type.bytes();
  RunEstimate e;
  e.on_device = programs_.on_device();
  e.memory = {{"parameters", bytes}, {"optimizer", bytes * config.optimizer.slots().size()}};
  if (config.averages) e.memory.push_back({"averages", bytes});
  require_memory(e, programs_.memory());
  if (ranks_) config.buckets = gradient_buckets(*task_, example.batch, config);
  return config;
}

void DeviceModel::require_shards(const EvaluationGraph& forward) const {
  const std::int64_t shards = task_->shards();
  if (shards > 1 && shards != accumulate_)
    throw Error(ErrorKind::usage, "trainer",
                "the task's rows are in " + std::to_string(shards) + " shards, and an update has " +
                    std::to_string(accumulate_) + " batches",
                "Set TrainerOptions::accumulate (train.accumulate) to the number of shards");
  if (!ranks_) return;
  if (ranks_->size() > accumulate_)
    throw Error(ErrorKind::usage, "trainer",
                std::to_string(ranks_->size()) + " ranks cannot share the " + std::to_string(accumulate_) +
                    " batches of an update",
                "Set train.accumulate to the number of ranks or a multiple of it");
  if (!forward.buffers.empty() && shards == 1)
    throw Error(ErrorKind::usage, "trainer",
                "this task carries states from batch to batch, so ranks cannot take turns with its batches",
                "Set data.shards to train.accumulate: each batch of an update then has rows of its own");
}

UpdateShare DeviceModel::share_of(std::int64_t micro_batches) const {
  return ranks_ ? UpdateShare{micro_batches, ranks_->rank(), ranks_->size()} : UpdateShare{micro_batches};
}

void DeviceModel::compile_update(const Batch& batch) {
  if (is_whole(accumulate_)) {
    updates_.get(Phase::whole, batch, {});
    return;
  }
  updates_.get(Phase::accumulate, batch, share_of(accumulate_));
  updates_.get(Phase::step, batch, share_of(accumulate_));
}

void DeviceModel::update(std::span<const Batch> batches, const UpdateInputs& inputs) {
  const UpdateShare share = share_of(inputs.micro_batches > 0 ? inputs.micro_batches : std::ssize(batches));
  UpdateNumbers numbers{inputs.lr, inputs.average_rate, seed_, draw_of(inputs.update), inputs.update, inputs.asked};
  if (is_whole(share.micro_batches)) {
    update_whole(batches[0], inputs, numbers);
    return;
  }
  accumulator_.accumulate(batches, numbers, share, example_);
  const Batch& like = batches.empty() ? example_ : batches.back();
  numbers.draw += share.micro_batches - 1;
  BoundProgram& step = updates_.get(Phase::step, like, share);
  if (inputs.statistics) note_statistics(updates_.statistics(Phase::step, like, share), like, numbers);
  run_update(step, {}, numbers);
  if (ranks_) asked_ = tensors_.accumulated().download(k_asked).at(0) > 0;
}

void DeviceModel::update_whole(const Batch& batch, const UpdateInputs& inputs, const UpdateNumbers& numbers) {
  BoundProgram& program = updates_.get(Phase::whole, batch, {});
  if (batch.starts_stream) tensors_.clear_states(0);
  if (inputs.statistics) note_statistics(updates_.statistics(Phase::whole, batch, {}), batch, numbers);
  run_update(program, batch, numbers);
}

void DeviceModel::note_statistics(CompiledProgram& compiled, const Batch& batch, const UpdateNumbers& numbers) {
  run_update(*compiled.program, batch, numbers);
  const Tensor values = compiled.program->outputs().at(k_statistics);
  std::int64_t at = 0;
  const auto next = [&] { return values.at(at++); };
  TrainingStatistics& s = statistics_.emplace();
  s.update = numbers.update;
  for (const std::string& name : compiled.parameters) {
    const double gradient_norm = next();
    s.parameters[name] = {gradient_norm, next()};
  }
  for (const std::string& name : compiled.loops) {
    const double saturated = next();
    s.loops[name] = {saturated, next()};
  }
}

std::string DeviceModel::first_nonfinite(std::span<const Batch> batches, std::int64_t update,
                                         std::int64_t micro_batches) const {
  const UpdateShare share = share_of(micro_batches > 0 ? micro_batches : std::ssize(batches));
  std::int64_t index = micro_batches_of(share.micro_batches, share.rank, share.ranks).begin;
  TensorMap tensors = tensors_.parameters().downloaded();
  for (const Batch& batch : batches) {
    for (auto& [state, tensor] : tensors_.downloaded_states(index % task_->shards()))
      tensors.insert_or_assign(state, tensor);
    tensors.insert_or_assign("key", key_of(seed_, draw_of(update) + index++));
    const std::string found = unroll::first_nonfinite(*task_, batch, tensors, programs_.backend(),
                                                      programs_.options().precision, loss_scale());
    if (!found.empty()) return found;
  }
  return {};
}

std::vector<RunEstimate::Part> DeviceModel::memory(std::int64_t waiting) const {
  const TrainingPrograms::Bytes programs = programs_.bytes();
  const DeviceTensors& carried = tensors_.carried();
  return {{"parameters", tensors_.parameters().bytes()},
          {"optimizer", carried.bytes(TensorRole::slot)},
          {"averages", carried.bytes(TensorRole::average)},
          {"states", carried.bytes(TensorRole::state) + evaluator_.state_bytes()},
          {"accumulated gradients", tensors_.accumulated().bytes()},
          {"arena", programs.arena},
          {"prepared weights and constants", programs.weights},
          {"batches on the device", programs.batches},
          {"batches ahead", programs_.on_device() ? 0 : programs.largest_batch * static_cast<std::size_t>(waiting)}};
}

std::vector<double> DeviceModel::totals() const {
  const Tensor totals = tensors_.carried().download(k_totals);
  const auto values = totals.values<float>();
  return {values.begin(), values.end()};
}

DeviceModel::BadUpdates DeviceModel::bad() const {
  const Tensor counters = tensors_.carried().download(k_bad);
  const auto at = [&](std::int64_t i) { return static_cast<std::int64_t>(counters.at(i)); };
  return {at(0), at(1), at(2), at(3)};
}

double DeviceModel::loss_scale() const {
  return tensors_.carried().has(k_loss_scale) ? tensors_.carried().download(k_loss_scale).at(0) : 1;
}

}  // namespace unroll
