// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/record.h"

#include <algorithm>
#include <cstring>

#include "unroll/error.h"

namespace unroll::cuda {

using device::Frame;
using device::Place;

std::vector<Command> Recorder::record(const PlanProgram& program, const Frame& frame) {
  commands_.clear();
  plan(program, frame);
  return std::move(commands_);
}

void Recorder::plan(const PlanProgram& program, const Frame& frame) {
  for (const NodeWork& work : program.works) {
    if (work.body) {
      const std::size_t begin = commands_.size();
      is_whole_ = work.whole.has_value();
      loop(program, work.loop, frame);
      if (work.whole) join(begin, *work.whole);
      is_whole_ = false;
    }
    for (const Launch& launch : work.launches) {
      Command command{&launch};
      for (const device::Operand& operand : launch.operands)
        command.operands.push_back(place(program, operand, frame).at);
      if (is_whole_) command.touches = touches_of(program, work, launch, frame);
      command.follows = &launch != &work.launches.front();
      commands_.push_back(std::move(command));
    }
  }
  output_copies(program, frame);
}

void Recorder::step(const device::PlanPlaces& body, const Frame& frame, std::int64_t, std::int64_t) {
  plan(static_cast<const PlanProgram&>(body), frame);
}

void Recorder::copy(const Place& from, const Place& to, std::size_t bytes) {
  if (bytes == 0 || from.at == to.at) return;
  commands_.push_back({nullptr, {from.at, to.at}, bytes});
  if (!is_whole_) return;
  commands_.back().touches = {{from.memory, from.at, from.at + bytes, false}, {to.memory, to.at, to.at + bytes, true}};
}

// What the node reads and writes, and the workspace of the launch.
std::vector<device::Touch> Recorder::touches_of(const PlanProgram& program, const NodeWork& work, const Launch& launch,
                                                const Frame& frame) const {
  std::vector<device::Touch> list;
  touches(program, work.reads, false, frame, list);
  touches(program, work.writes, true, frame, list);
  for (const device::Operand& operand : launch.operands) {
    if (!operand.workspace) continue;
    const Place at = place(program, operand, frame);
    list.push_back({at.memory, at.at, at.at + operand.bytes, true});
  }
  return list;
}

// The commands from `begin` on become one.
void Recorder::join(std::size_t begin, const WholeLoop& loop) {
  if (begin == commands_.size()) return;
  const auto blocks_of = [](std::size_t threads) {
    return static_cast<std::int64_t>((threads + k_loop_threads - 1) / k_loop_threads);
  };
  auto run = std::make_shared<LoopRun>();
  run->kernel = loop.kernel;
  run->commands = static_cast<std::int64_t>(commands_.size() - begin);
  run->table.resize((commands_.size() - begin) * loop.words);
  std::int64_t* words = run->table.data();
  device::Touched touched;  // since the last wait
  for (std::size_t c = begin; c < commands_.size(); ++c, words += loop.words) {
    const Command& command = commands_[c];
    if (c > begin && (command.follows || touched.conflicts(command.touches))) {
      *(words - loop.words + 2) = 1;
      touched.clear();
    }
    touched.add(command.touches);
    std::int64_t* const arguments = words + k_loop_head;
    std::copy(command.operands.begin(), command.operands.end(), arguments);
    if (const Launch* const launch = command.launch) {
      const BlockNeeds& needs = kernels_.needs(launch->kernel);
      const bool is_fixed = needs.shares_rows || needs.threads != 0;
      words[0] = loop.parts.at(launch->kernel);
      words[1] = is_fixed ? launch->blocks : blocks_of(std::size_t{launch->blocks} * launch->threads);
      std::memcpy(arguments + command.operands.size(), launch->sizes.data(), launch->sizes.size());
    } else {
      constexpr std::size_t k_most_threads = 1 << 16;
      words[0] = static_cast<std::int64_t>(loop.parts.size());
      words[1] = blocks_of(std::min((command.bytes + 3) / 4, k_most_threads));
      arguments[2] = static_cast<std::int64_t>(command.bytes);
    }
    run->blocks = std::max(run->blocks, static_cast<unsigned>(words[1]));
  }
  commands_.resize(begin);
  commands_.push_back({.loop = std::move(run)});
}

void transfer(const Command& command, DeviceRanks& ranks, CUstream stream) {
  std::vector<DeviceRanks::Message> messages;
  for (std::size_t k = 0; k < command.operands.size(); ++k) {
    const Transfer& t = command.launch->transfers[k];
    messages.push_back({t.sends, t.peer, command.operands[k], t.elements, t.dtype});
  }
  ranks.exchange(messages, stream);
}

void enqueue(const Device& device, const Module& module, std::span<const Command> commands, DeviceRanks* ranks) {
  const Functions& f = device.f();
  std::vector<void*> arguments;
  for (const Command& command : commands) {
    if (command.loop) {
      void* all[] = {const_cast<CUdeviceptr*>(&command.operands[0]), const_cast<CUdeviceptr*>(&command.operands[1]),
                     const_cast<std::int64_t*>(&command.loop->commands)};
      device.check(f.LaunchCooperativeKernel(module.kernel(command.loop->kernel), command.loop->blocks, 1, 1,
                                             k_loop_threads, 1, 1, 0, device.stream(), all),
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

CapturedGraph::CapturedGraph(const Device& device, const Module& module, std::span<const Command> commands)
    : device_(device) {
  const Functions& f = device_.f();
  device_.check(f.StreamBeginCapture(device_.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  CUgraph graph = nullptr;
  try {
    enqueue(device_, module, commands);
  } catch (...) {
    if (f.StreamEndCapture(device_.stream(), &graph) == CUDA_SUCCESS && graph) f.GraphDestroy(graph);
    throw;
  }
  device_.check(f.StreamEndCapture(device_.stream(), &graph), "cuStreamEndCapture");
  const CUresult made = f.GraphInstantiate(&graph_, graph, 0);
  f.GraphDestroy(graph);
  device_.check(made, "cuGraphInstantiate");
}

CapturedGraph::~CapturedGraph() {
  try {
    device_.enter();
    device_.wait();  // it may still run
  } catch (const Error&) {  // the next call throws it
  }
  device_.f().GraphExecDestroy(graph_);
}

void CapturedGraph::launch() const {
  device_.check(device_.f().GraphLaunch(graph_, device_.stream()), "cuGraphLaunch");
}

}  // namespace unroll::cuda
