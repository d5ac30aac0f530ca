// SPDX-License-Identifier: Apache-2.0
// Walks a compiled plan for bound buffers: where each value lies, step by step in loops, and the copies of states and
// outputs. Backends that record kernels derive from it and add the kernels.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/device/joined.h"
#include "backends/device/lowering.h"
#include "backends/device/touched.h"
#include "unroll/ir/ops.h"

namespace unroll::device {

// The beginning of a value, and the memory around it that a kernel may address. For a slice of a stacked value, that is
// the memory of all steps, so that steps share bindings.
struct Place {
  const void* memory = nullptr;        // tells allocations apart
  std::size_t begin = 0, bytes = 0;    // what is bound
  std::size_t at = 0;                  // of the value, counted as `begin`
  // For a packed value in a step: bytes from `at` to where its part would begin if no row had ended. The parts of two
  // steps have no byte in common wherever they lie, so this stands for the place that only the device knows.
  std::size_t apart = 0;
};

// The places of a compiled plan that the walk needs.
struct PlanPlaces {
  std::shared_ptr<const Plan> plan;
  StatePlaces states = {};                  // of a body
  Operand second_arena = {};                // of a body whose steps use two in turn
  // [node] offset of a constant among the constants of the executable; behind them those of other blocks, to which the
  // backend's own operands refer.
  std::vector<std::size_t> constants = {};
  bool copies_output(std::size_t output) const;  // it is computed elsewhere, and not read there by the next step
};

// Appends the constants of the plan to those of the executable.
void place_constants(PlanPlaces& places, std::vector<std::byte>& constants);

// A scan of a plan.
struct LoopPlaces {
  std::int32_t node = -1;
  std::shared_ptr<const PlanPlaces> body = {};
  std::vector<Operand> unread = {};  // [output] workspace for those that are not stored
  // [T, 2] rows of each step of a packed loop, and of all steps before it. A step gets its pair as an input behind
  // those of the body. Each state lies in the two copies alone; the dispatches after the loop read the final ones
  // there.
  std::optional<Operand> live_rows = {};
};

// With workspace from the compiler of the plan.
LoopPlaces loop_places(const Plan& plan, std::int32_t scan, std::shared_ptr<const PlanPlaces> body, Lowering& compiler);

// Places for the inputs and outputs of a plan.
struct Frame {
  std::vector<Place> inputs, outputs;
  Place arena;
  // In a loop, the frame of the step before; null in the first step. `is_last`: the frame of the last step.
  const Frame* previous = nullptr;
  bool is_last = false;
  std::vector<bool> kept_states = {};  // [state] the loop keeps it
  // In a step of a packed loop: inputs and outputs that begin where the device finds out, within what is bound.
  std::vector<bool> packed_inputs = {}, packed_outputs = {};
};

// Bytes of all outputs of a plan, if some have the buffers of donors; else 0: an order of the copies suffices.
std::size_t copied_bytes(const Plan& plan);
// The line of a node in a report, without implementation and time.
ReportLine report_line(const Plan& plan, std::int32_t node, int depth);

// Memory of an executable.
struct HeldPlaces {
  Place constants, workspace;
  Place copies;   // of outputs that are copied, where an order of the copies does not suffice
  Place nothing;  // where values without bytes are bound
};

// Offsets of the two copies of a state of a loop, one after the other, in the arena of the plan with the loop.
struct StateCopies {
  std::size_t first, apart;
};
StateCopies state_copies(const Plan& plan, std::int32_t scan, std::size_t state);
// True if an input of a packed scan has the rows of all steps, below each other.
bool is_packed_sequence(const Plan& plan, std::int32_t scan, std::size_t input);

class PlanWalk {
 public:
  explicit PlanWalk(const HeldPlaces& held) : held_(held) {}
  virtual ~PlanWalk() = default;

 protected:
  // One step of a loop, with its output copies.
  virtual void step(const PlanPlaces& body, const Frame& frame, std::int64_t number, std::int64_t steps) = 0;
  virtual void copy(const Place& from, const Place& to, std::size_t bytes) = 0;
  virtual void order() = 0;  // what follows comes after all that came before

  Place place(const PlanPlaces& program, const Operand& operand, const Frame& frame) const;
  Place place(const PlanPlaces& program, ValueId id, const Frame& frame) const;
  // Appends where regions of the plan lie.
  void touches(const PlanPlaces& program, const std::vector<common::Region>& regions, bool writes, const Frame& frame,
               std::vector<Touch>& out) const;
  void loop(const PlanPlaces& program, const LoopPlaces& loop, const Frame& frame);
  bool copies_outputs(const PlanPlaces& program) const;
  void output_copies(const PlanPlaces& program, const Frame& frame);

 private:
  // A loop that is being walked.
  struct Loop {
    const PlanPlaces& program;
    const LoopPlaces& places;
    const Frame& frame;
    ScanLayout layout;
    std::vector<Place> arenas;     // one or two
    std::vector<Place> copies[2];  // [state] of odd and even steps
    bool is_kept(std::size_t output) const;
    std::size_t n_states() const { return layout.n_states; }
  };
  Frame step_frame(const Loop& loop, std::int64_t step, const Frame* previous) const;
  Place output_place(const Loop& loop, int output, std::int64_t step) const;  // of the body
  Place state_after(const Loop& loop, std::size_t state, const Frame& step) const;
  Place slice(const Loop& loop, int output, std::int64_t step) const;
  void after_steps(const Loop& loop, const Frame& last);

  HeldPlaces held_;
};

}  // namespace unroll::device
