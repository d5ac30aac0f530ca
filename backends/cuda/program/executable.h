// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "backends/cuda/driver/captured_graph.h"
#include "backends/cuda/program/context.h"
#include "backends/cuda/program/record.h"

namespace unroll::cuda {

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(std::shared_ptr<Context> context, std::shared_ptr<const Plan> plan);
  void run(const Bindings& bindings) override;
  std::vector<ReportLine> report() const override;
  std::size_t workspace_bytes() const override;

 private:
  // Commands for one binding tuple. The first run warms up, the second is captured, except transfers between ranks and
  // library calls that refuse it.
  struct Segment {
    std::size_t begin, end;  // of the commands
    bool captures;
    std::unique_ptr<CapturedGraph> graph = nullptr;
  };
  struct Part {
    std::vector<Command> commands;
    std::vector<Segment> segments = {};
    bool has_run = false;
  };
  struct Recorded {
    std::vector<CUdeviceptr> key;
    Part packing, main;  // the first runs before the second where parameters have changed
    std::unique_ptr<Memory> tables = nullptr;  // of whole loops
  };
  void run(Part& part) const;
  Part part_of(std::vector<Command> commands) const;
  void place_tables(Recorded& recorded);
  unsigned resident_blocks(const LoopRun& loop) const;
  void choose_cluster(LoopRun& loop) const;
  void try_cluster(LoopRun& loop) const;
  bool capture(Segment& segment, const std::vector<Command>& commands) const;
  Recorded& recorded_for(const Bindings& bindings);

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Plan> plan_;
  Program program_;
  std::shared_ptr<const Module> module_;
  Memory arena_, constants_, workspace_, copies_;
  std::list<Recorded> recorded_;  // the latest first
  std::vector<std::uint64_t> packed_;  // [packed input of the program] version that was packed
};

}  // namespace unroll::cuda
