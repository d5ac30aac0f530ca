// SPDX-License-Identifier: Apache-2.0
// The time loop. States are never copied: the body reads the last step's buffer and writes the next one; a state that
// is also a per-step output lives in that output's stack. In a packed scan a step runs on the rows that are still there.
#include <algorithm>
#include <cstring>

#include "backends/common/host_buffer.h"
#include "backends/cpu/program.h"
#include "unroll/ops.h"

namespace unroll::cpu {

namespace {

class ScanCall : public Call {
 public:
  ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes);
  void run(const Frame& frame, const Part& part) override;
  std::string implementation() const override {
    return "loop of " + std::to_string(layout_.steps) + (packed_.empty() ? "" : ", " + std::to_string(packed_.size()) + " packed");
  }
  void report(std::vector<ReportLine>& lines) const override { body_.report(lines, ""); }

 private:
  struct Operand {
    Ref ref;
    std::size_t step_bytes;  // of a sequence or stack
    bool present = true;
    bool packed = false;     // a sequence of packed rows
  };
  struct State {
    Ref first;             // initial value
    Operand last;          // final value, may be absent
    std::size_t bytes;
    std::size_t buffer;    // offset of its two buffers in the scratch
    int after = -1;        // per-step output that holds its value after each step, or -1
    int before = -1;       // per-step output that holds its value before each step, or -1
  };
  void bind_step(const Frame& frame, std::int64_t step, std::byte** bases);
  std::byte* stack_at(const Frame& frame, std::size_t k, std::int64_t t) const {
    return outputs_[k].present ? outputs_[k].ref.in(frame) + static_cast<std::size_t>(t) * outputs_[k].step_bytes : spill_.data() + spill_offset_[k];
  }
  std::int64_t time_of(std::int64_t step) const { return layout_.reverse ? layout_.steps - 1 - step : step; }
  std::byte* state_after(const Frame& frame, const State& state, std::int64_t step) const;
  void pack_constants(const Frame& inner, const Part& part);
  void finish(const Frame& frame, const Part& part) const;

  // Packed: rows are added (reverse) or end where the batch size changes; states move from buffer to buffer between.
  struct Packed {
    std::int64_t live = 0, next = 0;  // rows of this step and of the one after it
    std::int64_t row = 0, next_row = 0;  // first packed row of each
    std::int64_t time = 0;
  };
  void run_packed_steps(const Frame& frame, Frame& inner, const Part& part);
  void bind_packed(const Frame& frame, const Packed& at, std::byte** bases) const;
  std::byte* place_after(const Frame& frame, const State& state, const Packed& at, const std::byte* now) const;
  bool join_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte** states, const Part& part) const;
  bool end_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte* const* states,
                const Part& part) const;
  std::size_t row_bytes(std::size_t step_bytes) const { return step_bytes / static_cast<std::size_t>(batch_); }
  std::byte* packed_rows(const Frame& frame, std::size_t k, std::int64_t row) const {
    const Operand& stack = outputs_[k];
    if (!stack.present) return spill_.data() + spill_offset_[k];
    return stack.ref.in(frame) + static_cast<std::size_t>(row) * row_bytes(stack.step_bytes);
  }

  ScanLayout layout_;
  std::vector<PackedMatmul*> packed_;  // owned by the body's steps; filled while body_ is made
  Program body_;
  std::size_t scratch_base_;
  std::vector<State> states_;
  std::int64_t batch_ = 0;  // of a packed scan
  Ref batch_sizes_;
  std::vector<Operand> sequences_, constants_, outputs_;
  std::vector<std::vector<std::byte*>> bases_;  // per part
  mutable Bytes spill_;                // for per-step outputs that nobody reads
  std::vector<std::size_t> spill_offset_;
};

ScanCall::ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes)
    : layout_(scan_layout(view.graph().node(id))),
      body_({*view.plan.bodies[static_cast<std::size_t>(id)], view.parts, view.store, view.make_claimed}, &layout_,
            &packed_),
      scratch_base_(view.plan.scratch_offset[static_cast<std::size_t>(id)]) {
  const Node& node = view.graph().node(id);
  const Plan& body = *view.plan.bodies[static_cast<std::size_t>(id)];
  const auto n_states = static_cast<std::size_t>(layout_.n_states);
  const auto n_sequences = static_cast<std::size_t>(layout_.n_sequences);
  const auto operand = [&](std::int32_t k, std::size_t step_bytes) {
    const ValueId out{id, k};
    const bool present = view.storage(out).place != Storage::Place::none;
    return Operand{present ? view.ref(out) : Ref{}, step_bytes, present};
  };
  std::size_t buffer = scratch_base_ + body.arena_bytes;
  for (std::size_t i = 0; i < n_states; ++i) {
    const std::size_t bytes = view.graph().type(node.inputs[i]).bytes();
    states_.push_back({view.ref(node.inputs[i]), operand(static_cast<std::int32_t>(i), 0), bytes, buffer});
    buffer += 2 * aligned(bytes);
  }
  for (std::size_t i = 0; i < n_sequences; ++i) {
    const ValueId in = node.inputs[n_states + i];
    const Type& seen = body.graph->type(body.graph->inputs()[n_states + i].value);
    const bool packed = layout_.packed && view.graph().type(in).shape.rank() == seen.shape.rank();
    sequences_.push_back({view.ref(in), seen.bytes(), true, packed});
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout_.n_constants); ++i)
    constants_.push_back({view.ref(node.inputs[n_states + n_sequences + i]), 0});
  if (layout_.packed) {
    batch_sizes_ = view.ref(node.inputs.back());
    for (const NamedValue& value : body.graph->outputs()) batch_ = body.graph->type(value.value).shape[0];
  }
  std::size_t spilled = 0;
  for (std::size_t k = n_states; k < node.outputs.size(); ++k) {
    const Type step = body.graph->type(body.graph->outputs()[k].value);
    outputs_.push_back(operand(static_cast<std::int32_t>(k), step.bytes()));
    spill_offset_.push_back(spilled);
    if (!outputs_.back().present) spilled += aligned(step.bytes());
    // The value of a state after or before the step: the state can live in the stack.
    for (std::size_t i = 0; i < n_states && outputs_.back().present; ++i) {
      const ValueId value = body.graph->outputs()[k].value;
      const int place = static_cast<int>(k - n_states);
      if (states_[i].after < 0 && value == body.graph->outputs()[i].value) states_[i].after = place;
      if (states_[i].before < 0 && value == body.graph->inputs()[i].value) states_[i].before = place;
    }
  }
  spill_ = Bytes(at_least_one(spilled));
  bases_.assign(static_cast<std::size_t>(view.parts), std::vector<std::byte*>(body_.n_bases()));
  scratch_bytes = std::max(scratch_bytes, body_.scratch_bytes());
}

// Where the value of a state lies after `step` steps have run.
std::byte* ScanCall::state_after(const Frame& frame, const State& state, std::int64_t step) const {
  if (step == 0) return state.first.in(frame);
  if (state.after >= 0) return stack_at(frame, static_cast<std::size_t>(state.after), time_of(step - 1));
  if (state.before >= 0 && step < layout_.steps) return stack_at(frame, static_cast<std::size_t>(state.before), time_of(step));
  if (step == layout_.steps && state.last.present) return state.last.ref.in(frame);
  return frame.bases[k_arena] + state.buffer + static_cast<std::size_t>(step % 2) * aligned(state.bytes);
}

void ScanCall::bind_step(const Frame& frame, std::int64_t step, std::byte** bases) {
  const std::int64_t t = time_of(step);
  std::byte** at = bases + k_first_input;
  for (const State& state : states_) *at++ = state_after(frame, state, step);
  for (const Operand& sequence : sequences_) *at++ = sequence.ref.in(frame) + static_cast<std::size_t>(t) * sequence.step_bytes;
  for (const Operand& constant : constants_) *at++ = constant.ref.in(frame);
  for (const State& state : states_) *at++ = state_after(frame, state, step + 1);
  for (std::size_t k = 0; k < outputs_.size(); ++k) *at++ = stack_at(frame, k, t);
}

void ScanCall::run(const Frame& frame, const Part& part) {
  std::byte** bases = bases_[static_cast<std::size_t>(part.index)].data();
  bases[k_arena] = frame.bases[k_arena] + scratch_base_;
  bases[k_constants] = body_.constants();
  Frame inner{bases, frame.scratch};
  if (layout_.packed) return run_packed_steps(frame, inner, part);
  if (layout_.steps > 0) {
    bind_step(frame, 0, bases);
    pack_constants(inner, part);
  }
  for (std::int64_t step = 0; step < layout_.steps; ++step) {
    if (step > 0) bind_step(frame, step, bases);
    body_.run(inner, part);
  }
  finish(frame, part);
}

void ScanCall::pack_constants(const Frame& inner, const Part& part) {
  if (packed_.empty()) return;
  for (PackedMatmul* product : packed_) product->pack(inner, part);
  part.sync();
}

void ScanCall::run_packed_steps(const Frame& frame, Frame& inner, const Part& part) {
  if (batch_ == 0) return;
  const auto* sizes = reinterpret_cast<const std::int32_t*>(batch_sizes_.in(frame));
  const auto size_at = [&](std::int64_t t) { return std::clamp<std::int64_t>(sizes[t], 0, batch_); };
  std::byte** states = inner.bases + k_first_input;
  for (std::size_t i = 0; i < states_.size(); ++i) states[i] = states_[i].first.in(frame);
  for (std::size_t i = 0; i < constants_.size(); ++i)
    states[states_.size() + sequences_.size() + i] = constants_[i].ref.in(frame);
  pack_constants(inner, part);

  std::int64_t n_steps = 0, rows = 0;  // steps with rows come first
  for (; n_steps < layout_.steps && size_at(n_steps) > 0; ++n_steps) rows += size_at(n_steps);
  const auto time_at = [&](std::int64_t step) { return layout_.reverse ? n_steps - 1 - step : step; };
  Packed at;
  at.next = n_steps > 0 ? size_at(time_at(0)) : 0;
  at.next_row = layout_.reverse ? rows - at.next : 0;
  std::int64_t known = layout_.reverse ? 0 : batch_;  // rows of the states that are where `states` points
  for (std::int64_t step = 0; step < n_steps; ++step) {
    at.time = time_at(step);
    at.live = at.next;
    at.row = at.next_row;
    at.next = step + 1 < n_steps ? size_at(time_at(step + 1)) : 0;
    at.next_row = layout_.reverse ? at.row - at.next : at.row + at.live;
    const bool moved = layout_.reverse ? known < at.live && join_rows(frame, known, at.live, states, part)
                                       : known > at.live && end_rows(frame, at.live, known, states, part);
    if (moved) part.sync();
    known = at.live;
    bind_packed(frame, at, inner.bases);
    inner.rows = {at.live, batch_};
    body_.run(inner, part);
    std::byte** next = states + states_.size() + sequences_.size() + constants_.size();
    std::copy(next, next + states_.size(), states);
  }
  end_rows(frame, 0, known, states, part);
  if (!layout_.reverse) return;  // rows without any step
  for (std::size_t i = 0; i < states_.size(); ++i) states[i] = states_[i].first.in(frame);
  end_rows(frame, known, batch_, states, part);
}

void ScanCall::bind_packed(const Frame& frame, const Packed& p, std::byte** bases) const {
  std::byte** at = bases + k_first_input;
  const std::byte* const* now = at;
  at += states_.size();
  for (const Operand& sequence : sequences_)
    *at++ = sequence.ref.in(frame) + (sequence.packed ? static_cast<std::size_t>(p.row) * row_bytes(sequence.step_bytes)
                                                      : static_cast<std::size_t>(p.time) * sequence.step_bytes);
  at += constants_.size();
  for (std::size_t i = 0; i < states_.size(); ++i) *at++ = place_after(frame, states_[i], p, now[i]);
  for (std::size_t k = 0; k < outputs_.size(); ++k) *at++ = packed_rows(frame, k, p.row);
}

// Where the next value of a state goes. Behind the rows of the next step there is room for those of this one: they end
// there and are fetched before they are overwritten.
std::byte* ScanCall::place_after(const Frame& frame, const State& state, const Packed& at, const std::byte* now) const {
  if (state.after >= 0) return packed_rows(frame, static_cast<std::size_t>(state.after), at.row);
  if (state.before >= 0 && at.next > 0) return packed_rows(frame, static_cast<std::size_t>(state.before), at.next_row);
  std::byte* buffer = frame.bases[k_arena] + state.buffer;
  return buffer == now ? buffer + aligned(state.bytes) : buffer;
}

// Rows [from, to) of the states begin with their first values. False when they lie there already.
bool ScanCall::join_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte** states,
                         const Part& part) const {
  if (from == 0) return false;  // states are still the first ones
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    const std::size_t size = row_bytes(state.bytes);
    std::byte* buffer = frame.bases[k_arena] + state.buffer;
    const bool has_room = state.after < 0;  // in a buffer, or in the stack before the rows of the step that was run
    std::byte* to_state = has_room ? states[i] : buffer;
    const auto copy = [&](std::byte* target, const std::byte* source, std::int64_t begin, std::int64_t end) {
      const Range r = part.share(end - begin);
      const auto offset = static_cast<std::size_t>(begin + r.begin) * size;
      if (!r.empty()) std::memcpy(target + offset, source + offset, static_cast<std::size_t>(r.end - r.begin) * size);
    };
    if (!has_room) copy(to_state, states[i], 0, from);
    copy(to_state, state.first.in(frame), from, to);
    states[i] = to_state;
  }
  return true;
}

// Rows [from, to) of the states are final. False when nobody wants them.
bool ScanCall::end_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte* const* states,
                        const Part& part) const {
  bool any = false;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].last.present || from >= to) continue;
    any = true;
    const std::size_t size = row_bytes(states_[i].bytes);
    const Range r = part.share(to - from);
    const auto offset = static_cast<std::size_t>(from + r.begin) * size;
    if (!r.empty())
      std::memmove(states_[i].last.ref.in(frame) + offset, states[i] + offset,
                   static_cast<std::size_t>(r.end - r.begin) * size);
  }
  return any;
}

// Final states that do not lie where they are wanted.
void ScanCall::finish(const Frame& frame, const Part& part) const {
  for (const State& state : states_) {
    if (!state.last.present || state.bytes == 0) continue;
    const std::byte* from = state_after(frame, state, layout_.steps);
    std::byte* to = state.last.ref.in(frame);
    const Range r = part.share(static_cast<std::int64_t>(state.bytes), 64);
    if (from != to && !r.empty()) std::memmove(to + r.begin, from + r.begin, static_cast<std::size_t>(r.end - r.begin));
  }
}

}  // namespace

std::unique_ptr<Call> make_scan(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes) {
  if (const ScanLayout l = scan_layout(view.graph().node(node)); l.n_states == 0 && !l.packed)
    return make_map(view, node, scratch_bytes);
  return std::make_unique<ScanCall>(view, node, scratch_bytes);
}

}  // namespace unroll::cpu
