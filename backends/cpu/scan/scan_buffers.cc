// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/scan/scan_buffers.h"

#include <algorithm>
#include <cstring>

namespace unroll::cpu {

ScanBuffers::ScanBuffers(const PlanView& view, std::int32_t id, const ScanForm& form, std::int64_t divided_rows)
    : layout(form.layout), rows(divided_rows), scratch_base(view.plan.scratch_offset[id]) {
  const Node& node = view.graph().node(id);
  const Plan& body = *view.plan.bodies[id];
  const std::size_t n_states = layout.n_states, first_constant = n_states + layout.n_sequences;
  const auto rows_bytes = [&](const Type& type) {
    return rows > 0 && type.shape.rank() > 0 && type.shape[0] == rows ? type.bytes() : 0;
  };
  const auto operand = [&](std::size_t k, const Type& step) {
    const ValueId out{id, static_cast<std::int32_t>(k)};
    const bool present = view.storage(out).place != Storage::Place::none;
    const std::size_t bytes = step.bytes();
    return Operand{present ? view.ref(out) : Ref{}, bytes, rows > 0 ? bytes : 0, present};
  };
  std::size_t buffer = scratch_base + body.arena_bytes;
  for (std::size_t i = 0; i < n_states; ++i) {
    const Type& type = view.graph().type(node.inputs[i]);
    states.push_back({view.ref(node.inputs[i]), operand(i, type), type.bytes(), rows_bytes(type), buffer,
                      std::max(-1, form.states[i].after - layout.n_states),
                      std::max(-1, form.states[i].before - layout.n_states)});
    buffer += 2 * aligned(type.bytes());
  }
  for (std::size_t i = n_states; i < first_constant; ++i) {
    const Type& seen = body.graph->type(body.graph->inputs()[i].value);
    const bool packed = layout.packed && view.graph().type(node.inputs[i]).shape.rank() == seen.shape.rank();
    sequences.push_back({view.ref(node.inputs[i]), seen.bytes(), rows_bytes(seen), true, packed});
  }
  for (int i = 0; i < layout.n_constants; ++i) constants.push_back({view.ref(node.inputs[first_constant + i]), 0, 0});
  if (layout.packed) {
    batch_sizes = view.ref(node.inputs.back());
    for (const NamedValue& value : body.graph->outputs()) batch = body.graph->type(value.value).shape[0];
  }
  std::size_t spilled = 0;
  for (std::size_t k = n_states; k < node.outputs.size(); ++k) {
    const Type& step = body.graph->type(body.graph->outputs()[k].value);
    outputs.push_back(operand(k, step));
    spill_offset_.push_back(spilled);
    if (!outputs.back().present) spilled += aligned(step.bytes());
  }
  spill = Bytes(at_least_one(spilled));
}

// Returns the memory of a state's value after `step` steps.
std::byte* ScanBuffers::state_after(const Frame& frame, const State& state, std::int64_t step) const {
  if (step == 0) return state.first.in(frame);
  if (state.after >= 0) return stack_at(frame, state.after, time_of(step - 1));
  if (state.before >= 0 && step < layout.steps) return stack_at(frame, state.before, time_of(step));
  if (step == layout.steps && state.last.present) return state.last.ref.in(frame);
  return frame.bases[k_arena] + state.buffer + step % 2 * aligned(state.bytes);
}

void ScanBuffers::bind_step(const Frame& frame, std::int64_t step, std::int64_t first_row, std::byte** bases) const {
  const std::int64_t t = time_of(step);
  const auto row = [&](std::size_t rows_bytes) { return first_row == 0 ? 0 : rows_bytes * first_row / rows; };
  std::byte** at = bases + k_first_input;
  for (const State& state : states) *at++ = state_after(frame, state, step) + row(state.rows_bytes);
  for (const Operand& sequence : sequences)
    *at++ = sequence.ref.in(frame) + t * sequence.step_bytes + row(sequence.rows_bytes);
  for (const Operand& constant : constants) *at++ = constant.ref.in(frame);
  for (const State& state : states) *at++ = state_after(frame, state, step + 1) + row(state.rows_bytes);
  for (std::size_t k = 0; k < outputs.size(); ++k) *at++ = stack_at(frame, k, t) + row(outputs[k].rows_bytes);
}

void ScanBuffers::finish(const Frame& frame, const Worker& worker) const {
  for (const State& state : states) {
    if (!state.last.present || state.bytes == 0) continue;
    const std::byte* from = state_after(frame, state, layout.steps);
    std::byte* to = state.last.ref.in(frame);
    const Range r = worker.share(state.bytes, 64);
    if (from != to && !r.empty()) std::memmove(to + r.begin, from + r.begin, r.end - r.begin);
  }
}

}  // namespace unroll::cpu
