// SPDX-License-Identifier: Apache-2.0
// The memory of a scan's states, sequences, constants and outputs. States are never copied: the body reads the last
// step's buffer and writes the next one. A state that is also a per-step output is stored in that output's stack.
#pragma once

#include <vector>

#include "backends/common/host_buffer.h"
#include "backends/cpu/program/plan_view.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

struct ScanBuffers {
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
  // `divided_rows`: of a scan whose rows may run separately, else 0.
  ScanBuffers(const PlanView& view, std::int32_t id, const ScanForm& form, std::int64_t divided_rows);

  std::int64_t time_of(std::int64_t step) const { return layout.reverse ? layout.steps - 1 - step : step; }
  // Sets the bases of the body's inputs and outputs for rows from `first_row` on.
  void bind_step(const Frame& frame, std::int64_t step, std::int64_t first_row, std::byte** bases) const;
  // Copies final states that are not in their bound buffers.
  void finish(const Frame& frame, const Worker& worker) const;

  // Packed: rows are added (reverse) or end when the batch size changes; states move between buffers then.
  struct Packed {
    std::int64_t live = 0, next = 0;     // rows of this step and of the one after it
    std::int64_t row = 0, next_row = 0;  // first packed row of each
    std::int64_t time = 0;
  };
  void bind_packed(const Frame& frame, const Packed& at, std::byte** bases) const;
  // Copies initial values to rows [from, to) of the states. Returns false if they are already there.
  bool join_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte** now, const Worker& worker) const;
  // Stores the final states of rows [from, to). Returns false if no output needs them.
  bool end_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte* const* now,
                const Worker& worker) const;

  const ScanLayout& layout;  // of the form
  std::int64_t rows;
  std::size_t scratch_base;
  std::vector<State> states;
  std::vector<Operand> sequences, constants, outputs;
  std::int64_t batch = 0;  // batch size of a packed scan
  Ref batch_sizes;
  mutable Bytes spill;  // for per-step outputs that are not read

 private:
  std::byte* stack_at(const Frame& frame, std::size_t k, std::int64_t t) const {
    return outputs[k].present ? outputs[k].ref.in(frame) + t * outputs[k].step_bytes : spill.data() + spill_offset_[k];
  }
  std::byte* state_after(const Frame& frame, const State& state, std::int64_t step) const;
  std::size_t packed_row_bytes(std::size_t step_bytes) const { return step_bytes / batch; }
  std::byte* packed_rows(const Frame& frame, std::size_t k, std::int64_t row) const {
    const Operand& stack = outputs[k];
    if (!stack.present) return spill.data() + spill_offset_[k];
    return stack.ref.in(frame) + row * packed_row_bytes(stack.step_bytes);
  }
  std::byte* place_after(const Frame& frame, const State& state, const Packed& at, const std::byte* now) const;

  std::vector<std::size_t> spill_offset_;
};

}  // namespace unroll::cpu
