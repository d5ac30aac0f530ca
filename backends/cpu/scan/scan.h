// SPDX-License-Identifier: Apache-2.0
// The time loop. States are never copied: the body reads the last step's buffer and writes the next one. A state that
// is also a per-step output is stored in that output's stack. In a packed scan a step runs on the live rows. Several
// schedules (schedule.h) may divide the steps: all that may pay are compiled, the first runs are timed, the fastest
// stays. When its time changes, the others are compiled and timed again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/common/host_buffer.h"
#include "backends/cpu/cost/schedule.h"
#include "backends/cpu/cost/work.h"
#include "backends/cpu/program/packed_matmul.h"
#include "backends/cpu/program/program.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

class ScanCall final : public Call {
 public:
  ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes);
  void run(const Frame& frame, const Worker& worker) override;
  std::string implementation() const override;
  bool settled() const override { return !choice_.open(); }
  void report(std::vector<ReportLine>& lines) const override {
    ways_[choice_.active()].programs[0]->steps().report(lines);
  }
  // During tuning, the prediction of the first way, the best estimate.
  double predicted_ns() const override { return ways_[choice_.open() ? 0 : choice_.active()].guess_ms * 1e6; }
  std::size_t held_bytes() const override {
    std::size_t bytes = spill_.size();
    for (const Way& way : ways_) {
      for (const auto& program : way.programs) bytes += program->held_bytes();
      for (const Lane& lane : way.lanes) bytes += lane.arena.size() + lane.scratch.size();
    }
    return bytes;
  }

 private:
  struct Operand {
    Ref ref;
    std::size_t step_bytes;  // of a sequence or stack
    std::size_t rows_bytes;  // of all rows, if rows are divided; 0: all workers see the same
    bool present = true;
    bool packed = false;  // a sequence of packed rows
  };
  struct State {
    Ref first;     // initial value
    Operand last;  // final value, may be absent
    std::size_t bytes;
    std::size_t rows_bytes;
    std::size_t buffer;  // offset of its two buffers in the scratch
    int after = -1;      // per-step output that holds its value after each step, or -1
    int before = -1;     // per-step output that holds its value before each step, or -1
  };
  // Memory and program with which one worker runs steps.
  struct Lane {
    Program* body = nullptr;
    std::vector<PackedMatmul*>* packed = nullptr;  // owned by the body's steps
    std::vector<std::byte*> bases = {};
    Bytes arena = {}, scratch = {};  // of a body with separate memory
    Range rows{0, 0};                // of this worker; empty: all
  };
  // One way to divide the steps.
  struct Way {
    Schedule schedule;
    std::vector<std::unique_ptr<Program>> programs;  // one for all lanes, or one per lane
    std::vector<std::unique_ptr<std::vector<PackedMatmul*>>> packed;
    std::vector<Lane> lanes;
    double guess_ms = 0;  // before any run; 0: no estimate
    bool together() const { return schedule == Schedule::calls || schedule == Schedule::columns; }
  };
  // Returns the possible schedules, best estimate first.
  std::vector<Schedule> possible_schedules(const PlanView& view, std::int32_t id) const;
  void compile(Way& way) const;
  void clear(Way& way) const;
  // Called by worker 0 after a run. The other workers read ways only after the next barrier.
  void note_run(double milliseconds);
  void choose();
  void try_again();

  void run_lane(const Frame& frame, Lane& lane, const Worker& worker);
  void bind_step(const Frame& frame, std::int64_t step, Lane& lane);
  std::byte* stack_at(const Frame& frame, std::size_t k, std::int64_t t) const {
    return outputs_[k].present ? outputs_[k].ref.in(frame) + static_cast<std::size_t>(t) * outputs_[k].step_bytes
                               : spill_.data() + spill_offset_[k];
  }
  std::int64_t time_of(std::int64_t step) const { return layout_.reverse ? layout_.steps - 1 - step : step; }
  std::byte* state_after(const Frame& frame, const State& state, std::int64_t step) const;
  void finish(const Frame& frame, const Worker& worker) const;

  // Packed: rows are added (reverse) or end when the batch size changes; states move between buffers then.
  struct Packed {
    std::int64_t live = 0, next = 0;     // rows of this step and of the one after it
    std::int64_t row = 0, next_row = 0;  // first packed row of each
    std::int64_t time = 0;
  };
  void run_packed_steps(const Frame& frame, Frame& inner, Lane& lane, const Worker& worker);
  void bind_packed(const Frame& frame, const Packed& at, std::byte** bases) const;
  std::byte* place_after(const Frame& frame, const State& state, const Packed& at, const std::byte* now) const;
  bool join_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte** states,
                 const Worker& worker) const;
  bool end_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte* const* states,
                const Worker& worker) const;
  Range rows_of(const Worker& worker) const {
    const Range units = worker.share(rows_ / form_.row_unit);
    return {units.begin * form_.row_unit, units.end * form_.row_unit};
  }
  std::size_t packed_row_bytes(std::size_t step_bytes) const { return step_bytes / static_cast<std::size_t>(batch_); }
  std::byte* packed_rows(const Frame& frame, std::size_t k, std::int64_t row) const {
    const Operand& stack = outputs_[k];
    if (!stack.present) return spill_.data() + spill_offset_[k];
    return stack.ref.in(frame) + static_cast<std::size_t>(row) * packed_row_bytes(stack.step_bytes);
  }

  const ScanForm form_;
  const ScanLayout& layout_;  // of the form
  std::size_t scratch_base_;
  std::vector<State> states_;
  std::int64_t batch_ = 0;  // batch size of a packed scan
  std::int64_t rows_ = 0;   // of a scan with divided rows; a worker has a multiple of the form's row_unit
  Ref batch_sizes_;
  std::vector<Operand> sequences_, constants_, outputs_;
  mutable Bytes spill_;  // for per-step outputs that are not read
  std::vector<std::size_t> spill_offset_;

  // Inputs for compiling a way.
  std::shared_ptr<const Plan> body_;
  int parts_;
  MakeClaimed make_claimed_;
  LoopPlace place_;
  std::size_t scratch_room_ = 0;  // of the frame's scratch

  std::vector<Way> ways_;  // all that may pay; the ones without lanes are not compiled
  RepeatedChoice choice_;  // among the first ways
  int warm_up_ = 1;        // runs that are not timed
  BackendState& state_;
  std::string key_;  // of the choice
};

}  // namespace unroll::cpu
