// SPDX-License-Identifier: Apache-2.0
// Predicts the time of a plan's calls with the machine model: matmuls by their tiles, elementwise programs by their
// operations, and memory traffic by reuse distance. A value is found in the smallest cache that holds all bytes touched
// since its memory was last touched.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/cost/machine_model.h"
#include "backends/cpu/kernels/kernels.h"
#include "unroll/passes/backend.h"

namespace unroll::cpu {

// Division of a call among workers: none, the call's default, or by columns or rows of a loop's body.
enum class Share : std::uint8_t { none, calls, columns, rows };

// Reuse distances at a loop's body, in bytes.
struct LoopPlace {
  std::vector<double> input_distances;  // of each input of the body
  double stack_distance = 0;            // of the outputs of each step
  int n_states = 0, first_constant = 0;
};

class Costs {
 public:
  explicit Costs(const MachineModel& machine, const Plan& plan) : Costs(machine, plan, nullptr) {}
  Costs(const MachineModel& machine, const Plan& plan, const LoopPlace& loop) : Costs(machine, plan, &loop) {}

  // Nanoseconds of the slowest worker, without barriers; 0 for loops and for nodes without a call.
  double call_ns(std::int32_t node, Share share, int parts) const;
  // Nanoseconds for packing a matmul's weights before the first step of a loop.
  double pack_ns(std::int32_t node, int parts) const;
  // Nanoseconds for copying an output that was not computed in its bound buffer.
  double copy_ns(const Type& result, std::int32_t output, int parts) const;
  bool is_call(std::int32_t node) const;
  LoopPlace place_of_loop(std::int32_t scan) const;

 private:
  Costs(const MachineModel& machine, const Plan& plan, const LoopPlace* loop);

  const Type& type(const ValueId& id) const { return plan_.graph->type(id); }
  const Storage& storage(const ValueId& id) const {
    return plan_.storage[id.node][id.output];
  }
  bool is_within(const ValueId& piece, const ValueId& whole) const;
  bool is_packed(const Node& product) const;
  double distance(const ValueId& value, std::int32_t reader) const;
  double output_distance(const ValueId& value) const;
  MachineModel::Bytes bytes_at(double distance, int parts) const;
  double read_ns(std::int32_t node, std::size_t input, int parts) const;
  double write_ns(std::int32_t node, int parts) const;

  double matmul_ns(std::int32_t node, Share share, int parts) const;
  double packed_matmul_ns(const Node& node, const Matmul& matmul, Share share, int parts) const;
  double tiles_ns(const MachineModel::Products& products, double m, double n, double k) const;
  double elementwise_ns(const Node& node, double rows, double columns) const;
  double fused_reduction_ns(const Node& node, int parts) const;
  double other_ns(std::int32_t node) const;

  const MachineModel& machine_;
  const Plan& plan_;
  LoopPlace loop_;
  bool in_loop_;
  std::vector<double> touched_;  // [node] bytes touched before it in one step or run; the last entry is the total
};

}  // namespace unroll::cpu
