// SPDX-License-Identifier: Apache-2.0
// The time loop. States are never copied: the body reads the last step's buffer and writes the next one; a state that
// is also a per-step output lives in that output's stack.
#include <algorithm>
#include <cstring>

#include "backends/common/host_buffer.h"
#include "backends/cpu/program.h"
#include "unroll/ops.h"

namespace unroll::cpu {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

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
  void finish(const Frame& frame, const Part& part) const;

  ScanLayout layout_;
  std::vector<PackedMatmul*> packed_;  // owned by the body's steps; filled while body_ is made
  Program body_;
  std::size_t scratch_base_;
  std::vector<State> states_;
  std::vector<Operand> sequences_, constants_, outputs_;
  std::vector<std::vector<std::byte*>> bases_;  // per part
  mutable Bytes spill_;                // for per-step outputs that nobody reads
  std::vector<std::size_t> spill_offset_;
};

ScanCall::ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes)
    : layout_(scan_layout(view.graph().node(id))),
      body_(*view.plan.bodies[static_cast<std::size_t>(id)], view.parts, view.store, &layout_, &packed_),
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
    Type step = view.graph().type(in);
    step.shape = step.shape.removed(0);
    sequences_.push_back({view.ref(in), step.bytes()});
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout_.n_constants); ++i)
    constants_.push_back({view.ref(node.inputs[n_states + n_sequences + i]), 0});
  std::size_t spilled = 0;
  for (std::size_t k = n_states; k < node.outputs.size(); ++k) {
    Type step = node.outputs[k];
    step.shape = step.shape.removed(0);
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
  const Frame inner{bases, frame.scratch};
  if (layout_.steps > 0) bind_step(frame, 0, bases);
  if (layout_.steps > 0 && !packed_.empty()) {
    for (PackedMatmul* product : packed_) product->pack(inner, part);
    part.sync();
  }
  for (std::int64_t step = 0; step < layout_.steps; ++step) {
    if (step > 0) bind_step(frame, step, bases);
    body_.run(inner, part);
  }
  finish(frame, part);
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
  if (scan_layout(view.graph().node(node)).n_states == 0) return make_map(view, node, scratch_bytes);
  return std::make_unique<ScanCall>(view, node, scratch_bytes);
}

}  // namespace unroll::cpu
