// SPDX-License-Identifier: Apache-2.0
// The ways to divide the steps of a scan (schedule.h): all that may pay are compiled, the first runs are timed, the
// fastest stays. When its time changes, the others are compiled and timed again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/cost/schedule.h"
#include "backends/cpu/program/packed_matmul.h"
#include "backends/cpu/program/program.h"
#include "backends/cpu/scan/scan_buffers.h"

namespace unroll::cpu {

// Memory and program with which one worker runs steps.
struct ScanLane {
  Program* body = nullptr;
  std::vector<PackedMatmul*>* packed = nullptr;  // owned by the body's steps
  std::vector<std::byte*> bases = {};
  Bytes arena = {}, scratch = {};  // of a body with separate memory
  Range rows{0, 0};                // of this worker; empty: all
};

// One way to divide the steps.
struct ScanVariant {
  Schedule schedule;
  std::vector<std::unique_ptr<Program>> programs;  // one for all lanes, or one per lane
  std::vector<std::unique_ptr<std::vector<PackedMatmul*>>> packed;
  std::vector<ScanLane> lanes;
  double guess_ms = 0;  // before any run; 0: no estimate
  bool together() const { return schedule == Schedule::calls || schedule == Schedule::columns; }
};

class ScanVariants {
 public:
  ScanVariants(const PlanView& view, std::int32_t id, const ScanForm& form, const ScanBuffers& buffers,
               std::size_t& scratch_bytes);
  ScanVariant& active() { return variants_[choice_.active()]; }
  const ScanVariant& active() const { return variants_[choice_.active()]; }
  bool open() const { return choice_.open(); }
  bool timed() const { return variants_.size() > 1; }
  // Called by worker 0 after a run. The other workers read the variants only after the next barrier.
  void note_run(double milliseconds);
  std::string times() const;  // "; rows 1.2000 ms (1.1000 guessed)"
  // During tuning, the prediction of the first variant, the best estimate.
  double predicted_ns() const { return variants_[choice_.open() ? 0 : choice_.active()].guess_ms * 1e6; }
  std::size_t held_bytes() const;

 private:
  // Returns the possible schedules, best estimate first.
  std::vector<Schedule> possible_schedules(const PlanView& view, std::int32_t id) const;
  void compile(ScanVariant& variant) const;
  void clear(ScanVariant& variant) const;
  void choose();
  void try_again();
  Range rows_of(const Worker& worker) const {
    const Range units = worker.share(rows_ / form_.row_unit);
    return {units.begin * form_.row_unit, units.end * form_.row_unit};
  }

  const ScanForm& form_;
  std::int64_t rows_;  // of a scan with divided rows; a worker has a multiple of the form's row_unit
  // Inputs for compiling a variant.
  std::shared_ptr<const Plan> body_;
  int parts_;
  MakeClaimed make_claimed_;
  LoopPlace place_;
  std::vector<bool> kept_;        // [output] of the body
  std::size_t scratch_room_ = 0;  // of the frame's scratch

  std::vector<ScanVariant> variants_;  // all that may pay; the ones without lanes are not compiled
  RepeatedChoice choice_;              // among the first variants
  int warm_up_ = 1;                    // runs that are not timed
  BackendState& state_;
  std::string key_;  // of the choice
};

}  // namespace unroll::cpu
