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

struct Command {
  const Launch* launch = nullptr;  // null: a copy
  std::vector<CUdeviceptr> operands = {};  // of a copy: from, to
  std::size_t bytes = 0;                   // of a copy
};

class Recorder : private device::PlanWalk {
 public:
  explicit Recorder(const device::HeldPlaces& held) : PlanWalk(held) {}
  std::vector<Command> record(const PlanProgram& program, const device::Frame& frame);

 private:
  void plan(const PlanProgram& program, const device::Frame& frame);
  void step(const device::PlanPlaces& body, const device::Frame& frame, std::int64_t number,
            std::int64_t steps) override;
  void copy(const device::Place& from, const device::Place& to, std::size_t bytes) override;
  void order() override {}  // a stream is in order

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
