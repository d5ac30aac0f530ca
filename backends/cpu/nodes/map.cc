// SPDX-License-Identifier: Apache-2.0
// A scan without states: its steps are independent, so threads share them without waiting.
#include <algorithm>

#include "backends/common/host_buffer.h"
#include "backends/cpu/program/packed_matmul.h"
#include "backends/cpu/program/program.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

namespace {

class MapCall : public Call {
 public:
  MapCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes);
  void run(const Frame& frame, const Worker& worker) override;
  std::string implementation() const override {
    return std::to_string(layout_.steps) + " independent steps of " + std::to_string(parts_[0].body->steps().size()) +
           " calls";
  }
  void report(std::vector<ReportLine>& lines) const override { parts_[0].body->steps().report(lines); }
  double predicted_ns() const override { return parts_[0].body->steps().predicted_ns(); }
  std::size_t held_bytes() const override {
    std::size_t bytes = 0;
    for (const OwnBody& own : parts_) bytes += own.body->held_bytes() + own.spill.size();
    return bytes;
  }

 private:
  struct Operand {
    Ref ref;
    std::size_t step_bytes = 0;  // of a sequence or stack; 0: the same in every step
    bool present = true;
    std::size_t spill = 0;       // destination of an unread stack
  };
  // Bodies keep state while they run, so each worker has a copy.
  struct OwnBody {
    std::vector<PackedMatmul*> packed;  // owned by the body; set while it is compiled
    std::unique_ptr<Program> body;
    std::vector<std::byte*> bases;
    Bytes spill;
  };
  void bind_step(const Frame& frame, std::int64_t step, OwnBody& own) const;

  ScanLayout layout_;
  std::vector<OwnBody> parts_;
  std::vector<Operand> inputs_, outputs_;
  std::size_t arena_, arena_bytes_;  // of the first worker's body in the outer arena
  std::size_t scratch_bytes_ = 0;    // of one worker
};

MapCall::MapCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes)
    : layout_(scan_layout(view.graph().node(id))),
      arena_(view.plan.scratch_offset[id]),
      arena_bytes_(view.plan.bodies[id]->arena_bytes) {
  const Node& node = view.graph().node(id);
  const Plan& plan = *view.plan.bodies[id];
  const std::size_t n_sequences = layout_.n_sequences;
  const auto step_bytes = [](Type type) {
    type.shape = type.shape.removed(0);
    return type.bytes();
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    inputs_.push_back({view.ref(node.inputs[i]), i < n_sequences ? step_bytes(view.graph().type(node.inputs[i])) : 0});
  std::size_t spilled = 0;
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId out{id, static_cast<std::int32_t>(k)};
    const bool present = view.storage(out).place != Storage::Place::none;
    outputs_.push_back({present ? view.ref(out) : Ref{}, step_bytes(node.outputs[k]), present, spilled});
    if (!present) spilled += aligned(outputs_.back().step_bytes);
  }
  const ScanForm form = scan_form(view.plan, id);
  parts_.resize(view.parts);
  for (OwnBody& own : parts_) {
    ScanBody body{form, view.costs->place_of_loop(id), own.packed};
    body.apart = view.parts;
    own.body = std::make_unique<Program>(PlanView{plan, 1, view.state, view.make_claimed}, &body);
    own.body->leave_untimed();
    own.bases.resize(own.body->n_bases());
    own.spill = Bytes(at_least_one(spilled));
    scratch_bytes_ = aligned(own.body->scratch_bytes());
  }
  scratch_bytes = std::max(scratch_bytes, scratch_bytes_ * parts_.size());
}

void MapCall::bind_step(const Frame& frame, std::int64_t step, OwnBody& own) const {
  std::byte** at = own.bases.data() + k_first_input;
  for (const Operand& input : inputs_) *at++ = input.ref.in(frame) + step * input.step_bytes;
  for (const Operand& output : outputs_)
    *at++ = output.present ? output.ref.in(frame) + step * output.step_bytes : own.spill.data() + output.spill;
}

void MapCall::run(const Frame& frame, const Worker& worker) {
  const Range mine = worker.share(layout_.steps);
  if (mine.empty()) return;
  const std::size_t index = worker.index;
  OwnBody& own = parts_[index];
  own.bases[k_arena] = frame.bases[k_arena] + arena_ + index * arena_bytes_;
  own.bases[k_constants] = own.body->constants();
  Frame inner{own.bases.data(), frame.scratch + index * scratch_bytes_, {}, frame.lane};
  bind_step(frame, mine.begin, own);
  for (PackedMatmul* product : own.packed) product->pack(inner, Worker{});
  for (std::int64_t step = mine.begin; step < mine.end; ++step) {
    bind_step(frame, step, own);
    own.body->run(inner, Worker{});
  }
}

}  // namespace

std::unique_ptr<Call> make_map(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes) {
  return std::make_unique<MapCall>(view, node, scratch_bytes);
}

}  // namespace unroll::cpu
