// SPDX-License-Identifier: Apache-2.0
// A compiled plan: the steps of its nodes and the memory they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cost/schedule.h"
#include "backends/cpu/program/plan_view.h"
#include "backends/cpu/program/state.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

class PackedMatmul;
class ColumnSplit;

// Compile options of a scan's body.
struct ScanBody {
  const ScanForm& form;
  LoopPlace place;
  std::vector<PackedMatmul*>& packed;  // receives the matmuls by constants, to be packed before the loop
  Schedule schedule = Schedule::one;
  int sharers = 1;                     // workers that share each step in this schedule
  std::vector<bool> kept = {};         // [output] each step has separate memory
  const ScanLayout& layout() const { return form.layout; }
  bool by_columns() const { return schedule == Schedule::columns; }  // columns.h
  bool by_rows() const { return schedule == Schedule::rows; }        // runs on a subset of the rows
  int apart = 1;                       // workers that run other steps
};

class Program {
 public:
  // Without scan: a whole plan.
  explicit Program(PlanView view, const ScanBody* scan = nullptr);

  void prepare() { steps_.prepare(); }  // before a run, while the pool is idle
  // Called by every worker, in lock step.
  void run(const Frame& frame, const Worker& worker) { steps_.run(0, steps_.size(), frame, worker); }
  // Runs on an idle pool; calls that run alone execute between the pool's runs.
  template <class ThreadPool>
  void run_on(ThreadPool& pool, const Frame& frame) {
    for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
      const bool alone = steps_[begin].alone;
      for (end = begin + 1; end < steps_.size() && steps_[end].alone == alone;) ++end;
      if (alone) steps_.run(begin, end, frame, Worker{});
      else
        pool.run([&](const Worker& worker) {
          Frame own = frame;
          own.lane = worker.index;
          steps_.run(begin, end, own, worker);
        });
    }
  }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // Constants and packed weights of loops: all memory except arena and scratch.
  std::size_t held_bytes() const { return constants_.size() + steps_.held_bytes(); }
  std::byte* constants() { return constants_.data(); }
  std::size_t n_bases() const { return n_bases_; }
  void leave_untimed() { steps_.time_one_in(0); }
  const Steps& steps() const { return steps_; }

 private:
  void add_plan(const PlanView& view);
  void add_body(const PlanView& view, const ScanBody& scan);

  Steps steps_;
  std::size_t scratch_bytes_ = 0;
  std::size_t n_bases_ = 0;
  Bytes constants_;
};

// Copies outputs that were not computed in their bound buffers; null if there are none. n_states: of the scan whose
// body this is, else 0.
std::unique_ptr<Call> make_output_copies(const PlanView& view, int n_states);
// Returns the loop of a scan node over its body's program.
std::unique_ptr<Call> make_scan(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// The same for a scan without states: workers divide its independent steps.
std::unique_ptr<Call> make_map(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// Returns the call of a fused reduction (row_program.h).
std::unique_ptr<Call> make_fused_reduction(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// Adds the calls of nodes [begin, end) of a whole plan to `steps`.
void add_nodes(const PlanView& view, std::int32_t begin, std::int32_t end, Steps& steps, std::size_t& scratch_bytes);
// Returns the branches of a fork, concurrent or in turn (fork.cc).
std::unique_ptr<Call> make_fork(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes);
// A sum over all ranks must be claimed.
inline bool exchanges(const BackendState& state, const Node& node) {
  return node.op == Op::all_reduce && state.communicator && state.communicator->size() > 1;
}
std::unique_ptr<Call> make_all_reduce(const PlanView& view, std::int32_t node);
// Waits for sums that run beside the plan, the last of them at node `last`; null if there are none.
std::unique_ptr<Call> make_await_exchanges(const PlanView& view, std::int32_t& last);
// Returns the call of any other node; null if it computes nothing (inputs, constants, views). May raise scratch_bytes.
std::unique_ptr<Call> make_call(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);

}  // namespace unroll::cpu
