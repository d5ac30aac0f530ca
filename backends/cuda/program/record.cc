// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/program/record.h"

#include <algorithm>
#include <cstring>

#include "unroll/support/error.h"

namespace unroll::cuda {

using device::Frame;
using device::Place;

std::vector<Command> Recorder::record(const PlanProgram& program, const Frame& frame) {
  commands_.clear();
  plan(program, frame);
  return std::move(commands_);
}

std::vector<Command> Recorder::record(const PlanProgram& program, const std::vector<NodeWork>& works,
                                      const Frame& frame) {
  commands_.clear();
  run(program, works, frame);
  return std::move(commands_);
}

void Recorder::plan(const PlanProgram& program, const Frame& frame) {
  run(program, program.works, frame);
  output_copies(program, frame);
}

void Recorder::run(const PlanProgram& program, const std::vector<NodeWork>& works, const Frame& frame) {
  for (const NodeWork& work : works) {
    launches(program, work, work.before, frame);
    if (work.body) {
      const std::size_t begin = commands_.size();
      whole_ = work.whole ? &*work.whole : nullptr;
      weights_.clear();
      loop(program, work.loop, frame);
      if (work.whole) join(begin, *work.whole);
      whole_ = nullptr;
    }
    launches(program, work, work.launches, frame);
    launches(program, work, work.after, frame);
  }
}

void Recorder::launches(const PlanProgram& program, const NodeWork& work, const std::vector<Launch>& list,
                        const Frame& frame) {
  for (const Launch& launch : list) {
    Command command{&launch};
    for (const device::Operand& operand : launch.operands)
      command.operands.push_back(place(program, operand, frame).at);
    if (!command.operands.empty() && command.operands[0] % launch.alignment != 0)
      throw Error(ErrorKind::unsupported, "cuda",
                  "a resident loop reads a state that begins at no multiple of 16 bytes", "Leave out loops=resident");
    if (whole_) command.touches = touches_of(program, work, launch, frame);
    const bool is_packed = frame.inputs.size() > program.plan->graph->inputs().size();
    if (whole_ && is_packed) command.live = frame.inputs.back().at;
    command.follows = &launch != &list.front() && launch.accesses.empty();
    commands_.push_back(std::move(command));
  }
}

void Recorder::step(const device::PlanPlaces& body, const Frame& frame, std::int64_t number, std::int64_t) {
  for (std::size_t k = 0; whole_ && number == 0 && k < whole_->weights.size(); ++k)
    weights_.push_back(static_cast<std::int64_t>(place(body, whole_->weights[k], frame).at));
  plan(static_cast<const PlanProgram&>(body), frame);
}

void Recorder::copy(const Place& from, const Place& to, std::size_t bytes) {
  if (bytes == 0 || from.at == to.at) return;
  commands_.push_back({nullptr, {from.at, to.at}, bytes});
  if (!whole_) return;
  commands_.back().touches = {{{from.memory, from.at, from.at + bytes, false}},
                              {{to.memory, to.at, to.at + bytes, true}}};
}

// Bytes that the node reads and writes and the workspace of the launch, or the accesses of its operands by units.
std::vector<LoopTouch> Recorder::touches_of(const PlanProgram& program, const NodeWork& work, const Launch& launch,
                                            const Frame& frame) const {
  std::vector<LoopTouch> all;
  for (const UnitAccess& access : launch.accesses) {
    const Place at = place(program, launch.operands[access.operand], frame);
    const std::size_t begin = at.at + at.apart + access.offset;
    all.push_back({{at.memory, begin, begin + access.bytes, access.writes},
                   access.row_bytes,
                   access.width,
                   access.rows,
                   access.units});
  }
  if (!all.empty()) return all;
  std::vector<device::Touch> list;
  touches(program, work.reads, false, frame, list);
  touches(program, work.writes, true, frame, list);
  for (const device::Operand& operand : launch.operands) {
    if (!operand.workspace) continue;
    const Place at = place(program, operand, frame);
    list.push_back({at.memory, at.at, at.at + operand.bytes, true});
  }
  for (const device::Touch& touch : list) all.push_back({touch});
  return all;
}

namespace {

// Writes the words of a command into the table of its loop: the kernel, blocks, operands and sizes. Returns where the
// sizes begin.
std::int64_t* write_words(const Command& command, const WholeLoop& loop, std::int64_t* words) {
  const auto blocks_of = [&](std::size_t threads) {
    return static_cast<std::int64_t>((threads + loop.threads - 1) / loop.threads);
  };
  words[3] = static_cast<std::int64_t>(command.live);
  std::int64_t* const sizes = std::copy(command.operands.begin(), command.operands.end(), words + k_loop_head);
  if (const Launch* const launch = command.launch) {
    const LoopPart& part = loop.parts.at(launch->kernel);
    words[0] = part.number;
    words[1] = part.is_fixed ? launch->blocks : blocks_of(std::size_t{launch->blocks} * launch->threads);
    std::memcpy(sizes, launch->sizes.data(), launch->sizes.size());
  } else {
    constexpr std::size_t k_most_threads = 1 << 16;
    words[0] = static_cast<std::int64_t>(loop.parts.size());
    words[1] = blocks_of(std::min((command.bytes + 3) / 4, k_most_threads));
    *sizes = static_cast<std::int64_t>(command.bytes);
  }
  return sizes;
}

}  // namespace

// The commands from `begin` on become one.
void Recorder::join(std::size_t begin, const WholeLoop& loop) {
  if (begin == commands_.size() || weights_.size() < loop.weights.size()) return;  // no steps: copies at most
  auto run = std::make_shared<LoopRun>();
  run->kernel = loop.kernel;
  run->of = &loop;
  run->sizes.commands = static_cast<std::int64_t>(commands_.size() - begin);
  run->threads = loop.threads;
  run->shared_bytes = loop.shared_bytes;
  run->is_fixed = loop.blocks > 0;
  run->table = weights_;
  run->table.resize(weights_.size() + (commands_.size() - begin) * loop.words);
  std::int64_t* words = run->table.data() + weights_.size();
  if (loop.group_blocks > 0) run->counters += loop.blocks / loop.group_blocks;
  Exchange exchange;
  BufferSlots slots(loop.buffers);
  for (std::size_t c = begin; c < commands_.size(); ++c, words += loop.words) {
    const Command& command = commands_[c];
    if (c > begin) {
      Wait wait = command.follows ? Wait::grid : exchange.wait_for(command.touches);
      if (wait == Wait::group && loop.group_blocks == 1) wait = Wait::none;
      if (wait != Wait::none && loop.blocks > 0 && loop.group_blocks == loop.blocks)
        wait = loop.can_cluster() ? Wait::group : Wait::grid;
      *(words - loop.words + 2) = static_cast<std::int64_t>(wait);
      run->waits += wait == Wait::grid;
      run->group_waits += wait == Wait::group;
      exchange.waited(loop.group_blocks == loop.blocks && wait == Wait::group ? Wait::grid : wait);
      slots.waited(wait);
    }
    exchange.add(command.touches);
    std::int64_t* const sizes = write_words(command, loop, words);
    if (!loop.buffers.empty())
      slots.add({command.launch ? &command.launch->exchange : nullptr, command.touches,
                 static_cast<std::size_t>(sizes - run->table.data())},
                run->table);
    run->blocks = std::max(run->blocks, static_cast<unsigned>(words[1]));
  }
  if (loop.blocks > 0) run->blocks = loop.blocks;
  run->passed = slots.passed(), run->unclustered = slots.otherwise();
  commands_.resize(begin);
  commands_.push_back({.loop = std::move(run)});
}

void LoopRun::leave_shared() {
  for (const auto& [word, value] : unclustered) table[word] = value;
  passed = 0;
}

void transfer(const Command& command, DeviceRanks& ranks, CUstream stream) {
  std::vector<DeviceRanks::Message> messages;
  for (std::size_t k = 0; k < command.operands.size(); ++k) {
    const Transfer& t = command.launch->transfers[k];
    messages.push_back({t.sends, t.peer, command.operands[k], t.elements, t.dtype});
  }
  ranks.exchange(messages, stream);
}

ClusterLaunch::ClusterLaunch(const LoopRun& loop, CUstream stream) {
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = loop.cluster;
  attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[1].value.cooperative = 1;
  config.gridDimX = loop.blocks, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = loop.threads, config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(loop.shared_bytes);
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = loop.waits > 0 ? 2 : 1;  // without waits of the grid, clusters may run one after the other
}

void enqueue(const Device& device, const Module& module, std::span<const Command> commands, DeviceRanks* ranks) {
  const Functions& f = device.f();
  std::vector<void*> arguments;
  for (const Command& command : commands) {
    if (command.loop) {
      void* all[] = {const_cast<CUdeviceptr*>(&command.operands[0]), const_cast<CUdeviceptr*>(&command.operands[1]),
                     &command.loop->sizes};
      if (command.loop->cluster > 0) {
        ClusterLaunch launch(*command.loop, device.stream());
        device.check(f.LaunchKernelEx(&launch.config, module.kernel(command.loop->kernel), all, nullptr),
                     "cuLaunchKernelEx");
        continue;
      }
      device.check(f.LaunchCooperativeKernel(module.kernel(command.loop->kernel), command.loop->blocks, 1, 1,
                                             command.loop->threads, 1, 1,
                                             static_cast<unsigned>(command.loop->shared_bytes), device.stream(), all),
                   "cuLaunchCooperativeKernel");
      continue;
    }
    if (!command.launch) {
      device.check(f.MemcpyDtoDAsync(command.operands[1], command.operands[0], command.bytes, device.stream()),
                   "a copy");
      continue;
    }
    const Launch& launch = *command.launch;
    if (!launch.transfers.empty()) {
      transfer(command, *ranks, device.stream());
      continue;
    }
    if (launch.library) {
      launch.library->run(command.operands, device.stream());
      continue;
    }
    arguments.clear();
    for (const CUdeviceptr& operand : command.operands) arguments.push_back(const_cast<CUdeviceptr*>(&operand));
    arguments.push_back(const_cast<std::byte*>(launch.sizes.data()));
    device.check(f.LaunchKernel(module.kernel(launch.kernel), launch.blocks, 1, 1, launch.threads, 1, 1, 0,
                                device.stream(), arguments.data(), nullptr),
                 "cuLaunchKernel");
  }
}

}  // namespace unroll::cuda
