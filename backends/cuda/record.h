// SPDX-License-Identifier: Apache-2.0
// Records a program for bound buffers as a list of launches and copies, with the addresses of all operands. Loops are
// recorded step by step: the launches of the body with other addresses.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/device_ranks.h"
#include "backends/cuda/library/compiler.h"
#include "backends/cuda/program.h"

namespace unroll::cuda {

// A whole loop in one launch.
struct LoopRun {
  int kernel = -1;
  std::int64_t commands = 0;
  unsigned blocks = 1;  // of the grid
  std::vector<std::int64_t> table = {};  // [commands, words]
};

struct Command {
  const Launch* launch = nullptr;  // null: a copy, or a whole loop with operands table and a word for arrivals
  std::vector<CUdeviceptr> operands = {};  // of a copy: from, to
  std::size_t bytes = 0;                   // of a copy
  std::shared_ptr<LoopRun> loop = {};
  // Of a command in a whole loop.
  std::vector<device::Touch> touches = {};
  bool follows = false;  // it reads what the command before it wrote into the workspace
};

class Recorder : private device::PlanWalk {
 public:
  Recorder(const device::HeldPlaces& held, const Kernels& kernels) : PlanWalk(held), kernels_(kernels) {}
  std::vector<Command> record(const PlanProgram& program, const device::Frame& frame);

 private:
  void plan(const PlanProgram& program, const device::Frame& frame);
  void step(const device::PlanPlaces& body, const device::Frame& frame, std::int64_t number,
            std::int64_t steps) override;
  void copy(const device::Place& from, const device::Place& to, std::size_t bytes) override;
  void order() override {}  // a stream is in order
  void join(std::size_t begin, const WholeLoop& loop);

  std::vector<device::Touch> touches_of(const PlanProgram& program, const NodeWork& work, const Launch& launch,
                                        const device::Frame& frame) const;

  const Kernels& kernels_;
  bool is_whole_ = false;  // the loop that is being recorded
  std::vector<Command> commands_;
};

// Puts commands on the stream. Transfers need `ranks`.
void enqueue(const Device& device, const Module& module, std::span<const Command> commands,
             DeviceRanks* ranks = nullptr);

// Commands captured as a CUDA graph.
class CapturedGraph {
 public:
  // Throws Error(device) when they cannot be captured.
  CapturedGraph(const Device& device, const Module& module, std::span<const Command> commands);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  void launch() const;

 private:
  const Device& device_;
  CUgraphExec graph_ = nullptr;
};

}  // namespace unroll::cuda
