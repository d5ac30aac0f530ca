// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/device_model.h"

#include <algorithm>
#include <cstring>

#include "core/parallel/collectives.h"
#include "core/support/settling.h"
#include "core/support/sum_tree.h"
#include "core/support/tensor_role.h"
#include "core/support/text/size_text.h"
#include "core/train/device/evaluation_order.h"
#include "core/train/device/first_nonfinite.h"
#include "core/train/device/memory_limit.h"
#include "core/train/device/options.h"
#include "core/train/files/check_parameters.h"
#include "core/train/files/checkpoint.h"
#include "core/train/update/metrics.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::string signature(const std::vector<NamedType>& list) {
  std::string text;
  for (const NamedType& n : list) text += n.name + ":" + n.type.text() + ";";
  return text;
}

std::vector<double> doubles(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

// What all ranks have, one behind the other.
std::vector<float> joined(Communicator& ranks, std::span<const float> own) {
  std::vector<float> all;
  for (const ByteList& bytes : all_gather(ranks, std::as_bytes(own))) {
    if (bytes.empty()) continue;  // of a rank without batches
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(float));
    std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  return all;
}

// In f64: sums of f32 counts over many batches would stop growing.
void add_to(TensorMap& sums, const std::string& name, const Tensor& count) {
  Tensor& sum = sums.try_emplace(name, Tensor(DType::f64, count.shape())).first->second;
  for (std::int64_t i = 0; i < count.elements(); ++i) sum.set(i, sum.at(i) + count.at(i));
}

// Counts are whole numbers, so their order does not matter.
TensorMap summed(Communicator& ranks, const TensorMap& own) {
  TensorMap sums;
  for (const ByteList& bytes : all_gather(ranks, safetensors_bytes({own, {}})))
    for (const auto& [name, tensor] : parse_safetensors(bytes, "counts of a rank").tensors) add_to(sums, name, tensor);
  return sums;
}

}  // namespace

Batch Task::example(std::uint64_t seed) const {
  for (const Split split : {Split::train, Split::validation, Split::test})
    if (n_batches(split) > 0) return batch(split, seed, 0, 0);
  throw Error(ErrorKind::usage, "trainer", "the task has no batch in any split");
}

std::string shapes_of(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] : batch.inputs) text += name + ":" + tensor.type().text() + ";";
  return text;
}

DeviceModel::DeviceModel(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options)
    : task_(std::move(task)),
      backend_(backend),
      stage_(options.stage),
      seed_(options.seed),
      recipe_(options),
      accumulate_(options.accumulate),
      plan_options_(plan_options(options)),
      machine_memory_(options.machine_memory > 0 ? options.machine_memory : memory_for(backend)),
      ranks_(backend.communicator()),
      parameters_(backend),
      carried_(backend),
      accumulated_(backend) {
  if (ranks_ && ranks_->size() == 1) ranks_ = nullptr;
  const UpdateShare share = share_of(accumulate_);
  const Leaves own = leaves_of(task_->shards() > 1 ? accumulate_ : 1, share.rank, share.ranks);
  for (std::int64_t leaf = own.begin; leaf < own.end; ++leaf) shards_.push_back(leaf);
  const Batch example = task_->example(seed_);
  if (ranks_) example_ = example;
  const EvaluationGraph forward = build_evaluation(*task_, example);
  evaluation_metrics_ = forward.metrics;
  carries_ = !forward.persistent.empty();
  parameter_rules(recipe_.optimizer_options, recipe_.groups,
                  forward.parameters);  // a group without parameter is an error
  require_shards(forward);
  for (const ParameterSpec& p : forward.parameters)
    if (role_of(p.name) != TensorRole::parameter)
      throw Error(ErrorKind::usage, "trainer", "parameter '" + p.name + "' has a name that checkpoints reserve",
                  "Names must not begin with optimizer., average., state., trainer. or accumulated.");
  refuse_too_large(forward.parameters);
  if (ranks_) recipe_.buckets = gradient_buckets(*task_, example, recipe_);
  TensorMap initial = initialize(forward.parameters, seed_);
  for (const auto& [name, tensor] : initial) {
    parameters_.add(name, tensor.type());
    if (recipe_.averages) carried_.add(average_name(name), tensor.type());
  }
  set_parameters(initial, "initial values");
}

// Parameters and what goes with each of them are allocated before anything is planned.
void DeviceModel::refuse_too_large(const std::vector<ParameterSpec>& parameters) const {
  std::size_t bytes = 0;
  for (const ParameterSpec& p : parameters) bytes += p.type.bytes();
  RunEstimate e;
  e.on_device = on_device();
  e.memory = {{"parameters", bytes}, {"optimizer", bytes * recipe_.optimizer.slots().size()}};
  if (recipe_.averages) e.memory.push_back({"averages", bytes});
  require_memory(e, machine_memory_);
}

// Before anything is allocated: what is far too large must not be tried.
PlanOptions DeviceModel::fitting(const Graph& graph) const {
  constexpr std::size_t k_saved_per_value = 32;  // a gradient reads less than so many times what the graph shows
  std::size_t shown = 0;
  for (const Node& node : graph.nodes())
    for (const Type& type : node.outputs) shown += type.bytes();
  if (machine_memory_ == 0 || plan_options_.memory_limit > 0 || shown < machine_memory_ / k_saved_per_value)
    return plan_options_;
  const std::size_t needed = planned_bytes(*plan(graph, backend_, plan_options_));
  if (needed <= machine_memory_) return plan_options_;
  PlanOptions least = plan_options_;
  least.memory_limit = machine_memory_;
  plan(graph, backend_, least);  // throws with the largest consumers where checkpoints do not help either
  throw Error(ErrorKind::memory, "trainer",
              "an update needs " + size_text(needed) + "; " + (on_device() ? "the device has " : "the machine has ") +
                  size_text(machine_memory_) + " free",
              "Set a memory limit to use gradient checkpointing, or reduce the batch size or the number of steps");
}

// Sums of all batches are added up.
void DeviceModel::require_metrics(const std::vector<MetricLayout>& wanted, const std::vector<MetricLayout>& got) {
  if (wanted != got)
    throw Error(ErrorKind::usage, "trainer", "the task's metrics differ between batches",
                "Return the same metrics, in the same order and with the same sizes, for every batch");
}

struct DeviceModel::ProgramBytes {
  std::size_t arena = 0, weights = 0, batch = 0;
};

DeviceModel::ProgramBytes DeviceModel::all_programs() const {
  ProgramBytes all;
  const auto add = [&](const BoundProgram& p) {
    const std::size_t arena = p.program().plan().arena_bytes;
    all.arena = one_arena() ? std::max(all.arena, arena) : all.arena + arena;
    all.weights += p.program().executable().workspace_bytes() + constant_bytes(p.program().plan());
    all.batch += p.own_bytes();
  };
  for (const auto& [types, program] : updates_) add(*program);
  for (const auto& [what, program] : sums_) add(*program);
  for (const auto& [types, watching] : watching_) add(*watching.program);
  for (const auto& [types, evaluation] : evaluations_) add(*evaluation.program);
  for (const auto& [types, prediction] : predictions_) add(*prediction.program);
  return all;
}

DeviceModel::ProgramInfo DeviceModel::info_of(std::string shapes, const BoundProgram& program) const {
  const Plan& plan = program.program().plan();
  const std::size_t own = program.program().executable().workspace_bytes() + constant_bytes(plan) + program.own_bytes();
  return {std::move(shapes), own + (one_arena() ? 0 : plan.arena_bytes), plan.arena_bytes,
          is_settled(program.program().executable())};
}

std::vector<DeviceModel::ProgramInfo> DeviceModel::update_programs() const {
  std::vector<ProgramInfo> all;
  for (const auto& [key, program] : updates_)
    all.push_back(info_of(key.substr(1, key.find('|') - 1), *program));  // without the phase
  return all;
}

std::vector<DeviceModel::ProgramInfo> DeviceModel::evaluation_programs() const {
  std::vector<ProgramInfo> all;
  for (const auto& [shapes, evaluation] : evaluations_) all.push_back(info_of(shapes, *evaluation.program));
  return all;
}

std::vector<RunEstimate::Part> DeviceModel::memory(std::int64_t waiting) const {
  const ProgramBytes programs = all_programs();
  std::size_t states = carried_.bytes(TensorRole::state), one = 0;
  for (const auto& [types, set] : eval_states_) states += set->bytes();
  for (const auto& [types, program] : updates_) one = std::max(one, program->own_bytes());
  return {{"parameters", parameters_.bytes()},
          {"optimizer", carried_.bytes(TensorRole::slot)},
          {"averages", carried_.bytes(TensorRole::average)},
          {"states", states},
          {"accumulated gradients", accumulated_.bytes()},
          {"arena", programs.arena},
          {"prepared weights and constants", programs.weights},
          {"batches on the device", programs.batch},
          {"batches ahead", on_device() ? 0 : one * static_cast<std::size_t>(waiting)}};
}

std::size_t DeviceModel::saved_bytes() const {
  std::size_t most = 0;
  for (const auto& [types, program] : updates_) most = std::max(most, saved_values_bytes(program->program().plan()));
  return most;
}

std::unique_ptr<BoundProgram> DeviceModel::compiled(const Graph& graph, std::span<const PersistentTensors> sets) {
  const WorkStage before = stage_now_;
  tell({"compiling"});
  auto program = std::make_unique<BoundProgram>(graph, sets, backend_, fitting(graph));
  tell(before);
  return program;
}

DeviceModel::Evaluation& DeviceModel::program_for_evaluation(const Batch& batch, bool counts) {
  const std::string key = (counts ? "counts;" : "") + shapes_of(batch);
  if (const auto at = evaluations_.find(key); at != evaluations_.end()) return at->second;
  const EvaluationGraph graph = build_evaluation(*task_, batch, counts);
  require_metrics(evaluation_metrics_, graph.metrics);
  return evaluations_.emplace(key, bound(graph, batch)).first->second;
}

DeviceModel::Evaluation& DeviceModel::program_for_prediction(const Batch& batch) {
  const std::string key = shapes_of(batch);
  if (const auto at = predictions_.find(key); at != predictions_.end()) return at->second;
  return predictions_.emplace(key, bound(build_prediction(*task_, batch), batch)).first->second;
}

DeviceModel::Evaluation DeviceModel::bound(const EvaluationGraph& graph, const Batch& batch) {
  require_parameters(graph.parameters, batch);
  std::unique_ptr<DeviceTensors>& states = eval_states_[signature(graph.persistent)];
  if (!states) states = std::make_unique<DeviceTensors>(backend_);
  for (const NamedType& r : graph.persistent) states->add(r.name, r.type);
  Evaluation e;
  e.states = states.get();
  for (const NamedValue& output : graph.graph->outputs())
    if (!states->has(output.name)) e.results.emplace(output.name, Tensor(graph.graph->type(output.value)));
  const PersistentTensors sets[] = {{states.get()}, {&carried_, average_name("")}, {&parameters_}};
  e.program = compiled(*graph.graph, sets);
  return e;
}

// The shape of a batch may ask for other parameters than the example's did.
void DeviceModel::require_parameters(std::span<const ParameterSpec> wanted, const Batch& batch) const {
  std::map<std::string, Type> types, asked;
  for (const std::string& name : parameters_.names()) types.emplace(name, parameters_.type(name));
  for (const ParameterSpec& p : wanted)
    if (const auto at = types.find(p.name); at == types.end() || at->second != p.type) asked.emplace(p.name, p.type);
  if (asked.empty()) return;
  const auto& [name, type] = *asked.begin();
  const auto at = types.find(name);
  std::string inputs;
  for (const auto& [input, tensor] : batch.inputs) inputs += " " + input + " " + tensor.type().text();
  throw Error(ErrorKind::shape, "trainer",
              "parameter '" + name + "' is " + (at == types.end() ? "absent" : at->second.text()) +
                  ", and a batch of" + inputs + " needs " + type.text(),
              "Only the number of steps and of examples may differ between batches");
}

TensorMap DeviceModel::averages() const {
  TensorMap tensors = parameters();
  for (auto& [name, tensor] : tensors)
    if (const std::string average = average_name(name); carried_.has(average)) tensor = carried_.download(average);
  return tensors;
}

void DeviceModel::set_parameters(const TensorMap& tensors, const std::string& source) {
  restore(parameters_, tensors, source);
  for (const auto& [name, tensor] : tensors)
    if (const std::string average = average_name(name); carried_.has(average)) carried_.upload(average, tensor);
}

void DeviceModel::set_carried(const TensorMap& tensors, const std::string& source) {
  TensorMap own;
  for (const auto& [name, tensor] : tensors)
    if (!ranks_ || role_of(name) != TensorRole::state || carried_.has(name)) own.emplace(name, tensor);
  restore(carried_, own, source);
}

void DeviceModel::run(Evaluation& e, const Batch& batch) {
  if (batch.starts_stream)
    for (const std::string& name : e.states->names()) e.states->clear(name);
  for (const auto& [name, tensor] : batch.inputs) e.program->set(name, tensor);
  e.program->run();
  for (auto& [name, tensor] : e.results) e.program->download_into(name, tensor);
}

std::vector<double> DeviceModel::sum_of_reports(std::span<const float> reports) const {
  std::vector<double> sums(2 + n_sums(evaluation_metrics_), 0.0);
  for (std::size_t i = 0; i < reports.size(); ++i) sums[i % sums.size()] += static_cast<double>(reports[i]);
  return sums;
}

EvaluateResult DeviceModel::result_of(const std::vector<double>& sums) const {
  return {sums[1] == 0 ? 0 : sums[0] / sums[1], metric_values(evaluation_metrics_, std::span(sums).subspan(2)), {}};
}

EvaluateResult DeviceModel::evaluate(Split split, std::int64_t at_most, std::int64_t first, bool counts) {
  const std::int64_t shards = task_->evaluation_shards(split), n = task_->n_batches(split);
  const std::int64_t end = at_most > 0 ? std::min(first + at_most * shards, n) : n;
  const EvaluationOrder order(first, end, carries_ ? shards : 0);
  const bool shares = ranks_ && order.n_shares() > 1;
  const Leaves own = shares ? order.share(ranks_->rank(), ranks_->size()) : order.share(0, 1);
  std::vector<float> reports;
  TensorMap all_counts;
  const WorkStage before = stage_now_;
  for (std::int64_t at = own.begin; at < own.end; ++at) {
    tell({"evaluating", at - own.begin, own.size()});
    const Batch batch = task_->batch(split, seed_, 0, order.batch(at));
    Evaluation& e = program_for_evaluation(batch, counts);
    run(e, batch);
    const auto report = e.results.at(k_report).values<float>();
    reports.insert(reports.end(), report.begin(), report.end());
    for (const auto& [name, tensor] : e.results)
      if (name.starts_with(k_count_prefix))
        add_to(all_counts, name.substr(std::string_view(k_count_prefix).size()), tensor);
  }
  tell(before);
  if (shares) {
    reports = joined(*ranks_, reports);
    all_counts = summed(*ranks_, all_counts);
  }
  EvaluateResult result = result_of(sum_of_reports(order.by_index(reports)));
  result.counts = std::move(all_counts);
  return result;
}

EvaluateResult DeviceModel::evaluate(std::span<const Batch> batches) {
  std::vector<float> reports;
  for (const Batch& batch : batches) {
    Evaluation& e = program_for_evaluation(batch, /*counts=*/false);
    run(e, batch);
    const auto report = e.results.at(k_report).values<float>();
    reports.insert(reports.end(), report.begin(), report.end());
  }
  return result_of(sum_of_reports(reports));
}

TensorMap DeviceModel::predict(const Batch& batch) {
  Evaluation& e = program_for_prediction(batch);
  run(e, batch);
  TensorMap outputs;
  for (const auto& [name, tensor] : e.results)
    outputs.emplace(name.substr(std::string_view(k_output_prefix).size()), tensor);
  return outputs;
}

std::vector<double> DeviceModel::totals() const { return doubles(carried_.download(k_totals)); }
DeviceModel::BadUpdates DeviceModel::bad() const {
  const Tensor counters = carried_.download(k_bad);
  const auto at = [&](std::int64_t i) { return static_cast<std::int64_t>(counters.at(i)); };
  return {at(0), at(1), at(2), at(3)};
}

TensorMap DeviceModel::downloaded(const DeviceTensors& set) {
  TensorMap tensors;
  for (const std::string& name : set.names()) tensors.emplace(name, set.download(name));
  return tensors;
}

TensorMap DeviceModel::views(const DeviceTensors& set) {
  TensorMap tensors;
  for (const std::string& name : set.names()) tensors.emplace(name, set.view(name));
  return tensors;
}

void DeviceModel::restore(DeviceTensors& set, const TensorMap& tensors, const std::string& source) {
  NamedTypes expected, got;
  for (const std::string& name : set.names()) expected.emplace(name, set.type(name));
  for (const auto& [name, tensor] : tensors) got.emplace(name, tensor.type());
  check_parameters(expected, got, source);
  for (const auto& [name, tensor] : tensors) set.upload(name, tensor);
}

}  // namespace unroll
