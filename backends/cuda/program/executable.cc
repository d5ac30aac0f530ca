// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/program/executable.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using device::Frame;
using device::Place;

constexpr std::size_t k_recordings = 8;  // kept for binding tuples; training alternates between two

Place whole(CUdeviceptr at, std::size_t bytes) { return {nullptr, at, bytes, at}; }

bool transfers(const Command& command) { return command.launch && !command.launch->transfers.empty(); }
bool refuses(const Command& command) {
  const LibraryCall* const call = command.launch ? command.launch->library.get() : nullptr;
  return transfers(command) || (call && call->may_refuse_capture());
}

std::span<const Command> span_of(const std::vector<Command>& commands, std::size_t begin, std::size_t end) {
  return std::span<const Command>(commands).subspan(begin, end - begin);
}

// Commands [begin, end) in parts, those between the ones that are `apart` as graphs.
template <class Segment>
std::vector<Segment> segments_of(const std::vector<Command>& commands, std::size_t begin, std::size_t end, bool graphs,
                                 bool (*apart)(const Command&)) {
  std::vector<Segment> segments;
  for (std::size_t last = begin; begin < end; begin = last) {
    const bool is_apart = apart(commands[begin]);
    for (last = begin + 1; last < end && apart(commands[last]) == is_apart;) ++last;
    segments.push_back({begin, last, graphs && !is_apart && last - begin > 1});
  }
  return segments;
}

// Bytes of the tables of loops that are one kernel, for one recording.
std::size_t table_bytes(const PlanProgram& program) {
  std::size_t words = 0;
  for (const NodeWork& work : program.works) {
    if (!work.body) continue;
    const std::size_t steps = scan_layout(program.plan->graph->node(work.node)).steps;
    const std::size_t commands = commands_per_step(*work.body);
    if (!work.whole) words += steps * table_bytes(*work.body) / sizeof(std::int64_t);
    else
      words += k_counter_words * (2 + work.whole->blocks) + work.whole->weights.size() +
               steps * commands * work.whole->words;
  }
  return words * sizeof(std::int64_t);
}

// Describes the loop's kernel in a recorded run.
std::string whole_text(const WholeLoop& loop, std::span<const Command> commands) {
  for (const Command& command : commands)
    if (command.loop && command.loop->of == &loop)
      return ", " + loop.what + ", " + std::to_string(command.loop->waits) + " waits of the grid, " +
             std::to_string(command.loop->group_waits) + " of the blocks of some rows" +
             (command.loop->cluster > 0 ? ", which are a cluster" : "") +
             (command.loop->passed > 0 ? ", " + std::to_string(command.loop->passed) + " operands in shared memory"
                                       : "");
  return ", " + loop.what;
}

void report_plan(const PlanProgram& program, int depth, std::span<const Command> recorded,
                 std::vector<ReportLine>& lines) {
  for (const NodeWork& work : program.works) {
    const Node& node = program.plan->graph->node(work.node);
    ReportLine line = device::report_line(*program.plan, work.node, depth);
    line.implementation = work.body ? "recorded loop: " + std::to_string(scan_layout(node).steps) + " steps of " +
                                          launches_text(commands_per_step(*work.body)) +
                                          (scan_layout(node).packed ? ", packed rows" : "") +
                                          (work.whole ? whole_text(*work.whole, recorded) : "") +
                                          (work.note.empty() ? "" : "; " + work.note)
                                    : launches_text(static_cast<std::int64_t>(work.launches.size()));
    for (const Launch& launch : work.launches)
      if (launch.library) line.implementation += ": " + launch.library->name();
    if (!work.body && !work.note.empty()) line.implementation += "; " + work.note;
    lines.push_back(std::move(line));
    if (work.body) report_plan(*work.body, depth + 1, recorded, lines);
  }
}

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Context> context, std::shared_ptr<const Plan> plan)
    : context_(std::move(context)), plan_(std::move(plan)),
      program_(compile_program(plan_, context_->device.limits().multiprocessors, {}, context_->blas.get(),
                               context_->loops, context_->rnn.get())),
      module_(context_->compiler.module(program_.kernels.source(), program_.kernels.count())),
      arena_(context_, plan_->arena_bytes, "arenas of plans"),
      constants_(context_, program_.constants.size(), "constants"),
      workspace_(context_, program_.workspace_bytes, "workspace"),
      copies_(context_, device::copied_bytes(*plan_), "copies of outputs") {
  context_->device.upload(constants_.at(), program_.constants);
  program_.constants = {};
  for (const PackedWeights& packed : program_.packed)
    context_->device.check(context_->device.f().MemsetD8Async(workspace_.at() + packed.block.storage.offset, 0,
                                                              packed.bytes, context_->device.stream()),
                           "cuMemsetD8Async");
}

CudaExecutable::Recorded& CudaExecutable::recorded_for(const Bindings& bindings) {
  std::vector<CUdeviceptr> key;
  Frame frame;
  for (const Buffer* buffer : bindings.inputs) {
    key.push_back(as_device(*buffer).at());
    frame.inputs.push_back(whole(key.back(), buffer->bytes()));
  }
  for (const Buffer* buffer : bindings.outputs) {
    key.push_back(as_device(*buffer).at());
    frame.outputs.push_back(whole(key.back(), buffer->bytes()));
  }
  const auto found =
      std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& each) { return each.key == key; });
  if (found != recorded_.end()) {
    recorded_.splice(recorded_.begin(), recorded_, found);
    return recorded_.front();
  }
  frame.arena = whole(arena_.at(), arena_.bytes());
  const device::HeldPlaces held{whole(constants_.at(), constants_.bytes()), whole(workspace_.at(), workspace_.bytes()),
                                whole(copies_.at(), copies_.bytes()), whole(constants_.at(), 0)};
  Recorded made;
  made.key = std::move(key);
  made.packing = part_of(Recorder(held).record(*program_.main, program_.packing, frame));
  made.main = part_of(Recorder(held).record(*program_.main, frame));
  place_tables(made);
  recorded_.push_front(std::move(made));
  if (recorded_.size() > k_recordings) recorded_.pop_back();
  return recorded_.front();
}

CudaExecutable::Part CudaExecutable::part_of(std::vector<Command> commands) const {
  Part part{std::move(commands)};
  part.segments = segments_of<Segment>(part.commands, 0, part.commands.size(), context_->graphs, transfers);
  return part;
}

// Tables of whole loops go to the device, each behind zeros that count arrivals.
void CudaExecutable::place_tables(Recorded& recorded) {
  std::vector<std::int64_t> words;
  std::vector<std::pair<Command*, std::size_t>> places;
  for (Command& command : recorded.main.commands) {
    if (!command.loop) continue;
    places.emplace_back(&command, words.size() * sizeof(std::int64_t));
    words.resize(words.size() + command.loop->counters * k_counter_words);
    const unsigned most = resident_blocks(*command.loop);
    if (command.loop->is_fixed && command.loop->blocks > most)
      throw Error(ErrorKind::device, "cuda",
                  "a loop needs " + std::to_string(command.loop->blocks) + " blocks at the same time; the device has " +
                      std::to_string(most),
                  "Leave out loops=resident");
    command.loop->blocks = std::min(command.loop->blocks, most);
    choose_cluster(*command.loop);
    words.insert(words.end(), command.loop->table.begin(), command.loop->table.end());
    command.loop->table = {};
  }
  if (words.empty()) return;
  recorded.tables = std::make_unique<Memory>(context_, words.size() * sizeof(std::int64_t), "tables of loops");
  context_->device.upload(recorded.tables->at(), std::as_bytes(std::span(words)));
  for (const auto& [command, at] : places)
    command->operands = {recorded.tables->at() + at + command->loop->counters * k_counter_words * sizeof(std::int64_t),
                         recorded.tables->at() + at};
}

// Blocks of a kernel that run at the same time, two on each multiprocessor at most: each more takes part in barriers.
unsigned CudaExecutable::resident_blocks(const LoopRun& loop) const {
  const Device& device = context_->device;
  const CUfunction kernel = module_->kernel(loop.kernel);
  if (loop.shared_bytes > 0)
    device.check(device.f().FuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                             static_cast<int>(loop.shared_bytes)),
                 "cuFuncSetAttribute");
  int n = 0;
  device.check(device.f().OccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, static_cast<int>(loop.threads),
                                                                    loop.shared_bytes),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (n < 1)
    throw Error(ErrorKind::device, "cuda", "the kernel of a loop does not fit the device", "Write loops=steps");
  return static_cast<unsigned>(std::min(n, 2) * device.limits().multiprocessors);
}

// Blocks that have the same rows become a cluster where the device can run all clusters at the same time.
void CudaExecutable::choose_cluster(LoopRun& loop) const {
  constexpr int k_first_arch = 90;
  const bool has_clusters = context_->device.limits().arch >= k_first_arch;
  if (has_clusters && loop.of->can_cluster() && loop.group_waits > 0) try_cluster(loop);
  loop.sizes.clustered = loop.cluster > 0;
  if (loop.cluster == 0) loop.leave_shared();
}

void CudaExecutable::try_cluster(LoopRun& loop) const {
  const Functions& f = context_->device.f();
  const CUfunction kernel = module_->kernel(loop.kernel);
  loop.cluster = loop.of->group_blocks;
  CUresult known = CUDA_SUCCESS;
  if (loop.cluster > k_portable_cluster)
    known = f.FuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  const ClusterLaunch launch(loop, context_->device.stream());
  int n = 0;
  if (known == CUDA_SUCCESS) known = f.OccupancyMaxActiveClusters(&n, kernel, &launch.config);
  if (known != CUDA_SUCCESS || n < static_cast<int>(loop.blocks / loop.cluster)) loop.cluster = 0;
}

void CudaExecutable::run(const Bindings& bindings) {
  context_->device.enter();
  Recorded& recorded = recorded_for(bindings);
  std::vector<std::uint64_t> versions;
  for (const std::int32_t input : program_.packed_inputs)
    versions.push_back(as_device(*bindings.inputs[input]).version());
  for (const Buffer* output : bindings.outputs) as_device(*output).mark_written();
  if (versions != packed_) {
    packed_.clear();  // until the new ones are there
    run(recorded.packing);
    packed_ = std::move(versions);
  }
  run(recorded.main);
}

void CudaExecutable::run(Part& part) const {
  std::vector<Segment>& segments = part.segments;
  for (std::size_t k = 0; k < segments.size();) {
    if (part.has_run && segments[k].captures && !segments[k].graph && !capture(segments[k], part.commands)) {
      // The calls that refuse stay between graphs.
      const std::size_t begin = segments[k].begin, end = segments[k].end;
      auto parts = segments_of<Segment>(part.commands, begin, end, context_->graphs, refuses);
      const auto at = segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(k));
      segments.insert(at, std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
      continue;
    }
    const Segment& s = segments[k++];
    if (s.graph) s.graph->launch();
    else enqueue(context_->device, *module_, span_of(part.commands, s.begin, s.end), context_->ranks.get());
  }
  part.has_run = true;
}

// False: a call of a library refuses to be captured.
bool CudaExecutable::capture(Segment& s, const std::vector<Command>& commands) const {
  const auto part = span_of(commands, s.begin, s.end);
  try {
    s.graph = std::make_unique<CapturedGraph>(context_->device, [&] { enqueue(context_->device, *module_, part); });
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device || std::none_of(part.begin(), part.end(), refuses)) throw;
    return false;
  }
}

std::vector<ReportLine> CudaExecutable::report() const {
  std::vector<ReportLine> lines;
  std::span<const Command> recorded;
  if (!recorded_.empty()) recorded = recorded_.front().main.commands;
  report_plan(*program_.main, 0, recorded, lines);
  return lines;
}

std::size_t CudaExecutable::workspace_bytes() const {
  std::size_t tables = 0;
  for (const Recorded& recorded : recorded_) tables += recorded.tables ? recorded.tables->bytes() : 0;
  return constants_.bytes() + workspace_.bytes() + copies_.bytes() + std::max(tables, table_bytes(*program_.main));
}

}  // namespace unroll::cuda
