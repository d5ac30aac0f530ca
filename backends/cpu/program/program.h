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

// What the body of a scan is compiled for.
struct ScanBody {
  const ScanForm& form;
  LoopPlace place;
  std::vector<PackedMatmul*>& packed;  // gets the products by constants, to be packed before the loop
  Schedule schedule = Schedule::one;
  int sharers = 1;                     // parts that share each step in this schedule
  std::vector<bool> kept = {};         // [output] each step has memory of its own
  const ScanLayout& layout() const { return form.layout; }
  bool by_columns() const { return schedule == Schedule::columns; }  // columns.h
  bool by_rows() const { return schedule == Schedule::rows; }        // runs on some of the rows
  int apart = 1;                       // parts that run other steps
};

class Program {
 public:
  // Without scan: a whole plan.
  explicit Program(PlanView view, const ScanBody* scan = nullptr);

  void prepare() { steps_.prepare(); }  // before a run, while the pool is at rest
  // By every part, in lock step.
  void run(const Frame& frame, const Worker& worker) { steps_.run(0, steps_.size(), frame, worker); }
  // By a pool that is at rest, with calls that run alone between its runs.
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
  // Constants, packed weights of loops: all but arena and scratch.
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

// Copies outputs that were computed elsewhere to where they are bound; adds nothing when all are in place.
// n_states: of a scan whose body this is, else 0.
std::unique_ptr<Call> make_output_copies(const PlanView& view, int n_states);
// The loop of a scan node over its body's program.
std::unique_ptr<Call> make_scan(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// The same for one without states: its steps in any order, shared out.
std::unique_ptr<Call> make_map(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// A fused reduction (row_program.h).
std::unique_ptr<Call> make_fused_reduction(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// Adds the calls of nodes [begin, end), of a whole plan, to `steps`.
void add_nodes(const PlanView& view, std::int32_t begin, std::int32_t end, Steps& steps, std::size_t& scratch_bytes);
// The branches of a fork, side by side or in turn (fork.cc).
std::unique_ptr<Call> make_fork(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes);
// A sum over all ranks, which has to be claimed.
inline bool exchanges(const BackendState& state, const Node& node) {
  return node.op == Op::all_reduce && state.communicator && state.communicator->size() > 1;
}
std::unique_ptr<Call> make_all_reduce(const PlanView& view, std::int32_t node);
// Waits for sums that are under way beside the plan, the last of them by node `last`; null where there is none.
std::unique_ptr<Call> make_await_exchanges(const PlanView& view, std::int32_t& last);
// Any other node; null when it computes nothing (inputs, constants, views). Raises scratch_bytes to what it needs.
std::unique_ptr<Call> make_call(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);

}  // namespace unroll::cpu
