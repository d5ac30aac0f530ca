// SPDX-License-Identifier: Apache-2.0
// Records a program for bound buffers as a list of launches and copies, with the addresses of all operands. Loops are
// recorded step by step: the launches of the body with other addresses.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/driver/device_ranks.h"
#include "backends/cuda/kernels/compiler.h"
#include "backends/cuda/program/program.h"
#include "backends/cuda/scan/buffer_slots.h"
#include "backends/cuda/scan/exchange.h"

namespace unroll::cuda {

// A whole loop in one launch.
struct LoopRun {
  int kernel = -1;
  const WholeLoop* of = nullptr;
  struct Sizes {
    std::int64_t commands = 0, clustered = 0;
  } sizes = {};
  unsigned blocks = 1, threads = 1;  // of the grid, of a block
  std::size_t shared_bytes = 0;      // of a block
  bool is_fixed = false;             // it has all blocks or cannot run
  std::vector<std::int64_t> table = {};  // addresses of weights, then [commands, words]
  unsigned cluster = 0;                  // blocks that are launched as one; 0: none
  std::size_t counters = 1;              // of arrivals
  std::int64_t waits = 0, group_waits = 0;  // of all blocks, and of those that have the same rows
  std::int64_t passed = 0;                  // operands in shared memory where other blocks stored them
  BufferSlots::Otherwise unclustered = {};  // words of the table, for blocks that are no cluster
  void leave_shared();                      // the blocks are no cluster: each reads operands from memory
};

// The launch of a loop whose groups of blocks are clusters.
struct ClusterLaunch {
  ClusterLaunch(const LoopRun& loop, CUstream stream);
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;
  CUlaunchConfig config = {};
  CUlaunchAttribute attributes[2] = {};
};

struct Command {
  const Launch* launch = nullptr;  // null: a copy, or a whole loop with operands table and a word for arrivals
  std::vector<CUdeviceptr> operands = {};  // of a copy: from, to
  std::size_t bytes = 0;                   // of a copy
  std::shared_ptr<LoopRun> loop = {};
  // For a command in a whole loop.
  std::vector<LoopTouch> touches = {};
  bool follows = false;  // it reads what the command before it wrote into the workspace
  CUdeviceptr live = 0;  // the number of rows of a step of a packed loop
};

class Recorder : private device::PlanWalk {
 public:
  explicit Recorder(const device::HeldPlaces& held) : PlanWalk(held) {}
  std::vector<Command> record(const PlanProgram& program, const device::Frame& frame);
  // Only some launches, with operands of the program.
  std::vector<Command> record(const PlanProgram& program, const std::vector<NodeWork>& works,
                              const device::Frame& frame);

 private:
  void plan(const PlanProgram& program, const device::Frame& frame);
  void run(const PlanProgram& program, const std::vector<NodeWork>& works, const device::Frame& frame);
  void launches(const PlanProgram& program, const NodeWork& work, const std::vector<Launch>& list,
                const device::Frame& frame);
  void step(const device::PlanPlaces& body, const device::Frame& frame, std::int64_t number,
            std::int64_t steps) override;
  void copy(const device::Place& from, const device::Place& to, std::size_t bytes) override;
  void order() override {}  // a stream is in order
  void join(std::size_t begin, const WholeLoop& loop);

  std::vector<LoopTouch> touches_of(const PlanProgram& program, const NodeWork& work, const Launch& launch,
                                    const device::Frame& frame) const;

  const WholeLoop* whole_ = nullptr;    // the loop that is being recorded
  std::vector<std::int64_t> weights_;   // their addresses
  std::vector<Command> commands_;
};

// Puts commands on the stream. Transfers need `ranks`.
void enqueue(const Device& device, const Module& module, std::span<const Command> commands,
             DeviceRanks* ranks = nullptr);

}  // namespace unroll::cuda
