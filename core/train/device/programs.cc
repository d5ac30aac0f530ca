// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/programs.h"

#include <algorithm>

#include "core/ir/input_range.h"
#include "core/support/settling.h"
#include "core/support/text/size_text.h"
#include "core/train/device/memory_limit.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

bool reads_batch_of_update(const ProgramKey& key) {
  return key.kind == ProgramKind::update && key.phase != Phase::exchange && key.phase != Phase::step;
}

// Adds the sums "accumulated.<i + 1>.*" to the sums "accumulated.<i>.*".
std::shared_ptr<const Graph> sum_graph(std::size_t i, const std::map<std::string, Type>& parts) {
  auto graph = std::make_shared<Graph>();
  for (const auto& [part, type] : parts) {
    const std::string left = accumulated_name(i, part);
    graph->output(left, graph->input(left, type) + graph->input(accumulated_name(i + 1, part), type));
  }
  return graph;
}

// Ranks may give the last batch of an update, and what they share of it, differently from epoch to epoch.
ProgramKey key_of_update(Phase phase, const Batch& like, const UpdateShare& share) {
  ProgramKey key{.phase = phase};
  if (reads_batch_of_update(key)) key.shapes = shapes_of(like);
  if (phase != Phase::whole && phase != Phase::accumulate) key.number = share.micro_batches;
  return key;
}

}  // namespace

std::string shapes_of(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] : batch.inputs) text += name + ":" + tensor.type().text() + ";";
  return text;
}

PlanOptions donating(const Graph& graph, PlanOptions options) {
  for (const NamedValue& output : graph.outputs())
    for (const NamedValue& input : graph.inputs())
      if (input.name == output.name) options.donate.emplace_back(output.name, input.name);
  return options;
}

BoundProgram::BoundProgram(const Graph& graph, std::span<const TensorSource> sources, Backend& backend,
                           PlanOptions options)
    : program_(graph, backend, donating(graph, std::move(options))), limits_(index_limits(graph)),
      own_inputs_(backend), own_outputs_(backend) {
  const Graph& planned = *program_.plan().graph;
  const auto from_sources = [&](const std::string& name) -> Buffer* {
    for (const TensorSource& s : sources)
      if (s.tensors->has(s.prefix + name)) return s.tensors->buffer(s.prefix + name);
    return nullptr;
  };
  const auto buffer_of = [&](const NamedValue& value, DeviceTensors& own) {
    if (Buffer* buffer = from_sources(value.name)) return buffer;
    own.add(value.name, planned.type(value.value));
    return own.buffer(value.name);
  };
  for (const NamedValue& input : planned.inputs()) bindings_.inputs.push_back(buffer_of(input, own_inputs_));
  for (const NamedValue& output : planned.outputs())
    bindings_.outputs.push_back(own_inputs_.has(output.name) ? own_inputs_.buffer(output.name)
                                                             : buffer_of(output, own_outputs_));
}

void BoundProgram::set(const std::string& name, const Tensor& tensor) {
  if (!own_inputs_.has(name)) return;
  const Graph& planned = *program_.plan().graph;
  const auto input = std::ranges::find(planned.inputs(), name, &NamedValue::name);
  check_range(planned, *input, tensor, ErrorKind::usage, "trainer");
  check_indices(limits_, name, tensor);
  own_inputs_.upload(name, tensor);
}

void BoundProgram::bind(const std::string& name, Buffer* buffer) {
  const Graph& planned = *program_.plan().graph;
  const auto replace = [&](const auto& names, std::vector<Buffer*>& buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (names[i].name == name) buffers[i] = buffer;
  };
  replace(planned.inputs(), bindings_.inputs);
  replace(planned.outputs(), bindings_.outputs);
}

void BoundProgram::run() { program_.run(bindings_); }

// Refuses a graph that is far too large before anything is allocated for it.
PlanOptions TrainingPrograms::fitting(const Graph& graph) const {
  constexpr std::size_t k_saved_per_value = 32;  // a gradient reads less than this multiple of the values of the graph
  std::size_t shown = 0;
  for (const Node& node : graph.nodes())
    for (const Type& type : node.outputs) shown += type.bytes();
  if (memory_ == 0 || options_.memory_limit > 0 || shown < memory_ / k_saved_per_value)
    return options_;
  const std::size_t needed = planned_bytes(*plan(graph, backend_, options_));
  if (needed <= memory_) return options_;
  PlanOptions least = options_;
  least.memory_limit = memory_;
  plan(graph, backend_, least);  // throws with the largest consumers where checkpoints do not help either
  throw Error(ErrorKind::memory, "trainer",
              "an update needs " + size_text(needed) + "; " + (on_device() ? "the device has " : "the machine has ") +
                  size_text(memory_) + " free",
              "Set a memory limit to use gradient checkpointing, or reduce the batch size or the number of steps");
}

std::unique_ptr<BoundProgram> TrainingPrograms::compile(const Graph& graph, std::span<const TensorSource> sources) {
  const WorkStage before = stages_.now();
  stages_.tell({"compiling"});
  auto program = std::make_unique<BoundProgram>(graph, sources, backend_, fitting(graph));
  stages_.tell(before);
  return program;
}

ProgramInfo TrainingPrograms::info(const ProgramKey& key, const BoundProgram& program) const {
  const Plan& plan = program.program().plan();
  const std::size_t own = program.program().executable().workspace_bytes() + constant_bytes(plan) + program.own_bytes();
  return {key.shapes, own + (one_arena() ? 0 : plan.arena_bytes), plan.arena_bytes,
          is_settled(program.program().executable())};
}

std::vector<ProgramInfo> TrainingPrograms::updates() const {
  std::vector<ProgramInfo> all;
  for (const auto& [key, compiled] : programs_)
    if (reads_batch_of_update(key)) all.push_back(info(key, *compiled.program));
  return all;
}

std::vector<ProgramInfo> TrainingPrograms::evaluations() const {
  std::vector<ProgramInfo> all;
  for (const auto& [key, compiled] : programs_)
    if (key.kind == ProgramKind::evaluation) all.push_back(info(key, *compiled.program));
  return all;
}

TrainingPrograms::Bytes TrainingPrograms::bytes() const {
  Bytes all;
  for (const auto& [key, compiled] : programs_) {
    const BoundProgram& p = *compiled.program;
    const Plan& plan = p.program().plan();
    all.arena = one_arena() ? std::max(all.arena, plan.arena_bytes) : all.arena + plan.arena_bytes;
    all.weights += p.program().executable().workspace_bytes() + constant_bytes(plan);
    all.batches += p.own_bytes();
    if (!reads_batch_of_update(key)) continue;
    all.largest_batch = std::max(all.largest_batch, p.own_bytes());
    all.saved = std::max(all.saved, saved_values_bytes(plan));
  }
  return all;
}

BoundProgram& UpdatePrograms::get(Phase phase, const Batch& like, const UpdateShare& share) {
  const auto build = [&] { return compiled(phase, like, share); };
  return *cache_.get(key_of_update(phase, like, share), build).program;
}

CompiledProgram UpdatePrograms::compiled(Phase phase, const Batch& like, const UpdateShare& share) {
  const TrainingGraph graph = build_update(task_, like, config_, phase, share);
  require_parameters(tensors_.parameters(), graph.parameters, like);
  if (!metrics_) metrics_ = graph.metrics;
  require_metrics(*metrics_, graph.metrics);
  tensors_.add(graph.buffers);
  DeviceTensors& accumulated = tensors_.accumulated();
  for (const NamedType& part : graph.parts) {
    parts_.insert_or_assign(part.name, part.type);
    accumulated.add(accumulated_name(0, part.name), part.type);
    if (share.ranks > 1) accumulated.add(total_name(part.name), part.type);
  }
  if (share.ranks > 1 && !graph.parts.empty()) accumulated.add(k_asked, {DType::f32, {1}});
  return {cache_.compile(*graph.graph, sources())};
}

BoundProgram& UpdatePrograms::sum(std::size_t i) {
  const TensorSource source{&tensors_.accumulated()};
  const auto build = [&] { return CompiledProgram{cache_.compile(*sum_graph(i, parts_), std::span(&source, 1))}; };
  return *cache_.get({.kind = ProgramKind::sum, .number = static_cast<std::int64_t>(i)}, build).program;
}

CompiledProgram& UpdatePrograms::statistics(Phase phase, const Batch& like, const UpdateShare& share) {
  const ProgramKey key{ProgramKind::statistics, phase, shapes_of(like), share.micro_batches};
  return cache_.get(key, [&] {
    StatisticsGraph graph = build_statistics(task_, like, config_, phase, share);
    return CompiledProgram{.program = cache_.compile(*graph.training.graph, sources()),
                           .parameters = std::move(graph.parameters), .loops = std::move(graph.loops)};
  });
}

void require_parameters(const DeviceTensors& parameters, std::span<const ParameterSpec> wanted, const Batch& batch) {
  std::map<std::string, Type> types, asked;
  for (const std::string& name : parameters.names()) types.emplace(name, parameters.type(name));
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

void require_metrics(const std::vector<MetricLayout>& wanted, const std::vector<MetricLayout>& got) {
  if (wanted != got)
    throw Error(ErrorKind::usage, "trainer", "the task's metrics differ between batches",
                "Return the same metrics, in the same order and with the same sizes, for every batch");
}

}  // namespace unroll
