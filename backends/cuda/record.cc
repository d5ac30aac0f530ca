// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/record.h"

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
    if (work.body) loop(program, work.loop, frame);
    for (const Launch& launch : work.launches) {
      Command command{&launch};
      for (const device::Operand& operand : launch.operands)
        command.operands.push_back(place(program, operand, frame).at);
      commands_.push_back(std::move(command));
    }
  }
  output_copies(program, frame);
}

void Recorder::step(const device::PlanPlaces& body, const Frame& frame, std::int64_t, std::int64_t) {
  plan(static_cast<const PlanProgram&>(body), frame);
}

void Recorder::copy(const Place& from, const Place& to, std::size_t bytes) {
  if (bytes > 0 && from.at != to.at) commands_.push_back({nullptr, {from.at, to.at}, bytes});
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
    if (launch.product) {
      launch.product->run(command.operands[0], command.operands[1], command.operands[2], command.operands[3],
                          device.stream());
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
