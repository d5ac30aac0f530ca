// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/calls.h"

#include "backends/onednn/gradient.h"

namespace unroll::onednn {

namespace {

using cpu::Frame;
using cpu::Worker;
using cpu::PlanView;
using cpu::Ref;

Claim refused(std::string reason) {
  Claim claim;
  claim.reason = std::move(reason);
  return claim;
}

// An optional value.
struct Place {
  bool present = false;
  Ref ref = {};
  float* at(const Frame& frame) const { return present ? reinterpret_cast<float*>(ref.in(frame)) : nullptr; }
};

// Operands of the forward node, which the gradient node also has.
struct Inputs {
  Place x, h0, c0;
  std::vector<Place> parameters;

  Inputs(const PlanView& view, const Node& node, const Recurrent& r) {
    const auto in = [&](std::size_t i) { return Place{true, view.ref(node.inputs[i])}; };
    x = in(0), h0 = in(1);
    if (r.has_c()) c0 = in(2);
    for (std::size_t i = r.first_parameter; i < r.n_inputs; ++i) parameters.push_back(in(i));
  }
  std::vector<const float*> parameters_in(const Frame& frame) const {
    std::vector<const float*> list;
    for (const Place& p : parameters) list.push_back(p.at(frame));
    return list;
  }
};

// oneDNN's calls use the threads of the pool, which is idle meanwhile.
class RecurrentCall : public cpu::Call {
 public:
  RecurrentCall(const PlanView& view, std::int32_t id, const Recurrent& r, std::string implementation)
      : threads_(threads_for(r, view.parts)),
        scratch_{cpu::k_arena, view.plan.scratch_offset[id]},
        implementation_(std::move(implementation)) {}
  bool alone() const override { return true; }
  std::string implementation() const override { return implementation_; }

 protected:
  const int threads_;
  const Ref scratch_;

 private:
  std::string implementation_;
};

class ForwardCall final : public RecurrentCall {
 public:
  ForwardCall(const PlanView& view, std::int32_t id, const Recurrent& r, std::unique_ptr<Forward> forward)
      : RecurrentCall(view, id, r, "oneDNN " + forward->kernel()),
        inputs_(view, view.graph().node(id), r),
        forward_(std::move(forward)) {
    const auto out = [&](std::size_t k) { return Place{true, view.ref(ValueId{id, static_cast<std::int32_t>(k)})}; };
    y_ = out(0), hn_ = out(1);
    if (r.has_c()) cn_ = out(2);
    if (forward_->saved_bytes() > 0) saved_ = out(r.n_outputs());
  }
  void run(const Frame& frame, const Worker&) override {
    const ThreadCount threads(threads_);
    forward_->run({inputs_.x.at(frame), inputs_.h0.at(frame), inputs_.c0.at(frame), inputs_.parameters_in(frame),
                   y_.at(frame), hn_.at(frame), cn_.at(frame), reinterpret_cast<std::byte*>(saved_.at(frame)),
                   scratch_.in(frame)});
  }

 private:
  Inputs inputs_;
  Place y_, hn_, cn_, saved_;
  std::unique_ptr<Forward> forward_;
};

class GradientCall final : public RecurrentCall {
 public:
  GradientCall(const PlanView& view, std::int32_t id, const Recurrent& r, std::unique_ptr<Gradient> gradient)
      : RecurrentCall(view, id, r, "oneDNN " + gradient->kernel()),
        inputs_(view, view.graph().node(id), r),
        wanted_(r.n_inputs),
        n_parameters_(r.n_inputs - r.first_parameter),
        gradient_(std::move(gradient)) {
    const Node& node = view.graph().node(id);
    const Ints& d_outputs = node.attributes.get<Ints>("d_outputs");
    const Ints& d_inputs = node.attributes.get<Ints>("d_inputs");
    const auto in = [&](std::size_t i) { return Place{true, view.ref(node.inputs[i])}; };
    for (std::size_t i = 0; i < d_outputs.size(); ++i)
      cotangents_[d_outputs[i]] = in(r.n_inputs + i);
    const std::size_t first = r.n_inputs + d_outputs.size();
    for (std::size_t k = 0; k < r.n_outputs(); ++k) outputs_[k] = in(first + k);
    saved_ = in(first + r.n_outputs());
    for (std::size_t i = 0; i < d_inputs.size(); ++i)
      wanted_[d_inputs[i]] = {true, view.ref(ValueId{id, static_cast<std::int32_t>(i)})};
    has_c_ = r.has_c();
  }
  void run(const Frame& frame, const Worker&) override {
    const ThreadCount threads(threads_);
    std::vector<float*> d_parameters;
    for (std::size_t i = wanted_.size() - n_parameters_; i < wanted_.size(); ++i)
      d_parameters.push_back(wanted_[i].at(frame));
    gradient_->run({inputs_.x.at(frame), inputs_.h0.at(frame), inputs_.c0.at(frame), inputs_.parameters_in(frame),
                    cotangents_[0].at(frame), cotangents_[1].at(frame), cotangents_[2].at(frame), outputs_[0].at(frame),
                    outputs_[1].at(frame), outputs_[2].at(frame), reinterpret_cast<std::byte*>(saved_.at(frame)),
                    wanted_[0].at(frame), wanted_[1].at(frame), has_c_ ? wanted_[2].at(frame) : nullptr,
                    std::move(d_parameters), scratch_.in(frame)});
  }

 private:
  Inputs inputs_;
  Place cotangents_[3], outputs_[3], saved_;
  std::vector<Place> wanted_;  // [input of the forward node]
  std::size_t n_parameters_;
  bool has_c_;
  std::unique_ptr<Gradient> gradient_;
};

}  // namespace

Claim claim_recurrent(const Graph& graph, const Node& node, DType format) {
  const bool gradient = node.op == Op::gradient;
  const Recurrent r = recurrent_of(graph, node, format);
  if (const std::string why = refusal(r); !why.empty()) return refused(why);
  const std::string in = format == DType::f32 ? "" : " in " + std::string(dtype_name(format)) + " on this processor";
  const std::string none = "this oneDNN (" + library().release + ") has no such primitive" + in;
  if (gradient) {
    const Gradient made(r);
    if (!made.exists()) return refused(none);
    return {.yes = true, .saved_bytes = made.saved_bytes(), .saving_scratch_bytes = Forward(r, true).scratch_bytes(),
            .scratch_bytes = made.scratch_bytes(), .format = format};
  }
  const Forward inference(r, false);
  if (!inference.exists()) return refused(none);
  return {.yes = true, .scratch_bytes = inference.scratch_bytes(), .format = format};
}

std::unique_ptr<cpu::Call> make_recurrent(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  const ThreadCount threads(view.parts);
  const auto format = node.attributes.get_or<DType>("format", DType::f32);
  const Recurrent r = recurrent_of(view.graph(), node, format);
  if (node.op == Op::gradient) {
    auto gradient = std::make_unique<Gradient>(r);
    gradient->prepare();
    return std::make_unique<GradientCall>(view, id, r, std::move(gradient));
  }
  auto forward = std::make_unique<Forward>(r, node.attributes.get_or<std::int64_t>("saved_bytes", 0) > 0);
  forward->prepare();
  return std::make_unique<ForwardCall>(view, id, r, std::move(forward));
}

}  // namespace unroll::onednn
