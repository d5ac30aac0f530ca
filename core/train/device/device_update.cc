// SPDX-License-Identifier: Apache-2.0
// Updates: of one batch in one program; or of several batches, here or on several ranks, in some. `gather` gives the
// gradient of a batch (a leaf), sums of leaves are added in the order of a tree (core/support/sum_tree.h), and `step`
// changes the parameters. Several ranks exchange sums in the program of the last leaf of each.
#include <algorithm>

#include "core/support/sum_tree.h"
#include "core/support/tensor_role.h"
#include "core/train/device/device_model.h"
#include "core/train/device/first_nonfinite.h"
#include "core/train/update/control.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Of a state of a group of rows.
std::string name_in_shard(const std::string& state, std::int64_t shard) {
  return shard == 0 ? state : state + "@" + std::to_string(shard);
}

// Adds the sums "accumulated.<i + 1>.*" to the sums "accumulated.<i>.*".
std::shared_ptr<const Graph> build_sum(std::size_t i, const std::map<std::string, Type>& parts) {
  auto graph = std::make_shared<Graph>();
  for (const auto& [part, type] : parts) {
    const std::string left = accumulated_name(i, part);
    graph->output(left, graph->input(left, type) + graph->input(accumulated_name(i + 1, part), type));
  }
  return graph;
}

}  // namespace

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
  if (!forward.persistent.empty() && shards == 1)
    throw Error(ErrorKind::usage, "trainer",
                "this task carries states from batch to batch, so ranks cannot take turns with its batches",
                "Set data.shards to train.accumulate: each batch of an update then has rows of its own");
}

UpdateShare DeviceModel::share_of(std::int64_t leaves) const {
  return ranks_ ? UpdateShare{leaves, ranks_->rank(), ranks_->size()} : UpdateShare{leaves};
}

void DeviceModel::add_persistent(const TrainingGraph& graph) {
  for (const NamedType& r : graph.persistent) {
    const TensorRole role = role_of(r.name);
    if (role == TensorRole::state) {
      states_.insert(r.name);
      for (const std::int64_t shard : shards_) carried_.add(name_in_shard(r.name, shard), r.type);
      continue;
    }
    DeviceTensors& set = role == TensorRole::accumulated ? accumulated_ : carried_;
    if (set.has(r.name) && set.type(r.name) == r.type) continue;
    set.add(r.name, r.type);
    if (r.initial != 0) set.upload(r.name, Tensor::filled(r.type, r.initial));
  }
}

BoundProgram& DeviceModel::program_for_update(const Batch& batch, Phase phase, std::int64_t leaves) {
  // Ranks may give the last batch of an update, and what they share of it, differently from epoch to epoch.
  const std::string key = std::to_string(static_cast<int>(phase)) + shapes_of(batch) + '|' +
                          (phase == Phase::last ? std::to_string(leaves) : "");
  if (const auto at = updates_.find(key); at != updates_.end()) return *at->second;
  const TrainingGraph graph = build_update(*task_, batch, recipe_, phase, share_of(leaves));
  require_parameters(graph.parameters, batch);
  if (!metrics_) metrics_ = graph.metrics;
  require_metrics(*metrics_, graph.metrics);
  add_persistent(graph);
  if (phase != Phase::whole) add_parts(graph);
  const PersistentTensors sets[] = {{&parameters_}, {&carried_}, {&accumulated_}};
  return *updates_.emplace(key, compiled(*graph.graph, sets)).first->second;
}

void DeviceModel::add_parts(const TrainingGraph& graph) {
  for (const NamedType& part : graph.parts) {
    parts_.insert_or_assign(part.name, part.type);
    accumulated_.add(accumulated_name(0, part.name), part.type);
    if (ranks_) accumulated_.add(total_name(part.name), part.type);
  }
  if (ranks_) accumulated_.add(k_asked, {DType::f32, {1}});
}

BoundProgram& DeviceModel::program_for_sums(const Batch& like, Phase phase, std::int64_t leaves) {
  const std::string key = (phase == Phase::step ? "step of " : "exchange of ") + std::to_string(leaves);
  if (const auto at = sums_.find(key); at != sums_.end()) return *at->second;
  const TrainingGraph graph = build_update(*task_, like, recipe_, phase, share_of(leaves));
  if (!metrics_) metrics_ = graph.metrics;
  add_persistent(graph);
  add_parts(graph);
  const PersistentTensors sets[] = {{&parameters_}, {&carried_}, {&accumulated_}};
  return *sums_.emplace(key, compiled(*graph.graph, sets)).first->second;
}

BoundProgram& DeviceModel::program_for_sum(std::size_t i) {
  const std::string key = "sum " + std::to_string(i);
  if (const auto at = sums_.find(key); at != sums_.end()) return *at->second;
  const PersistentTensors sets[] = {{&accumulated_}};
  return *sums_.emplace(key, compiled(*build_sum(i, parts_), sets)).first->second;
}

DeviceModel::Watching& DeviceModel::program_for_watch(const Batch& batch, Phase phase, std::int64_t leaves) {
  const std::string key = std::to_string(static_cast<int>(phase)) + shapes_of(batch) + std::to_string(leaves);
  if (const auto at = watching_.find(key); at != watching_.end()) return at->second;
  Watching w;
  const WatchGraph graph = build_watch(*task_, batch, recipe_, phase, share_of(leaves));
  w.parameters = graph.parameters;
  w.loops = graph.loops;
  const PersistentTensors sets[] = {{&parameters_}, {&carried_}, {&accumulated_}};
  w.program = compiled(*graph.training.graph, sets);
  return watching_.emplace(key, std::move(w)).first->second;
}

void DeviceModel::prepare(const Batch& batch) {
  if (is_whole(accumulate_)) {
    program_for_update(batch, Phase::whole, 1);
    return;
  }
  program_for_update(batch, Phase::gather, accumulate_);
  program_for_sums(batch, Phase::step, accumulate_);
}

void DeviceModel::update(std::span<const Batch> batches, const UpdateInputs& inputs) {
  const std::int64_t leaves = inputs.leaves > 0 ? inputs.leaves : static_cast<std::int64_t>(batches.size());
  if (is_whole(leaves)) {
    const Tensor control = control_of(numbers_of(inputs, 0));
    BoundProgram& program = program_for_update(batches[0], Phase::whole, leaves);
    if (batches[0].starts_stream) clear_states(0);
    if (inputs.watch) watch(program_for_watch(batches[0], Phase::whole, leaves), batches[0], control, inputs.update);
    run(program, batches[0], control);
    return;
  }
  gather(batches, inputs, leaves);
  const Batch like = batches.empty() ? example_ : batches.back();
  const Tensor control = control_of(numbers_of(inputs, leaves - 1));
  if (ranks_ && batches.empty()) program_for_sums(like, Phase::exchange, leaves).run();
  BoundProgram& step = program_for_sums(like, Phase::step, leaves);
  if (inputs.watch) watch(program_for_watch(like, Phase::step, leaves), like, control, inputs.update);
  run(step, {}, control);
  if (ranks_) asked_ = accumulated_.download(k_asked).at(0) > 0;
}

void DeviceModel::gather(std::span<const Batch> batches, const UpdateInputs& inputs, std::int64_t leaves) {
  const UpdateShare share = share_of(leaves);
  const Leaves own = leaves_of(leaves, share.rank, share.ranks);
  SumStack stack(own);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::int64_t leaf = own.begin + static_cast<std::int64_t>(i);
    const bool is_last = i + 1 == batches.size();
    gather_leaf(batches[i], stack.size(), leaf, inputs, is_last && ranks_ ? Phase::last : Phase::gather, leaves);
    if (is_last) return;  // all_reduce adds it
    std::size_t top = stack.size();
    for (int sums = stack.push(); sums > 0; --sums) program_for_sum(--top).run();
  }
}

void DeviceModel::gather_leaf(const Batch& batch, std::size_t place, std::int64_t leaf, const UpdateInputs& inputs,
                              Phase phase, std::int64_t leaves) {
  BoundProgram& program = program_for_update(batch, phase, leaves);
  const std::int64_t shard = leaf % task_->shards();
  const auto sum = [&](std::size_t i, const std::string& part) {
    return accumulated_.buffer(accumulated_name(i, part));
  };
  for (const auto& [part, type] : parts_) {
    accumulated_.add(accumulated_name(place, part), type);
    program.bind(accumulated_name(0, part), sum(place, part));
    for (std::size_t i = 0; phase == Phase::last && i < place; ++i)
      program.bind(accumulated_name(i + 1, part), sum(i, part));
  }
  for (const std::string& state : states_) program.bind(state, carried_.buffer(name_in_shard(state, shard)));
  if (batch.starts_stream) clear_states(shard);
  run(program, batch, control_of(numbers_of(inputs, leaf)));
}

void DeviceModel::clear_states(std::int64_t shard) {
  for (const std::string& state : states_) carried_.clear(name_in_shard(state, shard));
}

UpdateNumbers DeviceModel::numbers_of(const UpdateInputs& inputs, std::int64_t leaf) const {
  return {inputs.lr, inputs.average_rate, seed_, draw_of(inputs.update) + leaf, inputs.update, inputs.asked};
}

void DeviceModel::run(BoundProgram& program, const Batch& batch, const Tensor& control) {
  for (const auto& [name, tensor] : batch.inputs) program.set(name, tensor);
  program.set(k_control, control);
  program.run();
}

void DeviceModel::watch(Watching& w, const Batch& batch, const Tensor& control, std::int64_t update) {
  run(*w.program, batch, control);
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

std::string DeviceModel::first_nonfinite(std::span<const Batch> batches, std::int64_t update,
                                         std::int64_t leaves) const {
  const UpdateShare share = share_of(leaves > 0 ? leaves : static_cast<std::int64_t>(batches.size()));
  std::int64_t leaf = leaves_of(share.leaves, share.rank, share.ranks).begin;
  TensorMap tensors = parameters();
  for (const Batch& batch : batches) {
    for (const std::string& state : states_)
      tensors.insert_or_assign(state, carried_.download(name_in_shard(state, leaf % task_->shards())));
    tensors.insert_or_assign("key", key_of(seed_, draw_of(update) + leaf++));
    const std::string found = unroll::first_nonfinite(*task_, batch, tensors, backend_, plan_options_.precision,
                                                      loss_scale());
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace unroll
