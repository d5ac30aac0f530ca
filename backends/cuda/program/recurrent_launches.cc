// SPDX-License-Identifier: Apache-2.0
// A claimed layer as launches: parameters and operands go where cuDNN reads them, its calls, and results back.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/library/recurrent.h"
#include "backends/cuda/program/program.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

using common::Recurrent;
using device::Operand;
using Slot = RnnSlot;

// The memory of one claimed node, and the operands of its calls so far.
class NodeCompiler::RnnNode {
 public:
  RnnNode(NodeCompiler& compiler, std::int32_t id, const RnnLibrary& library)
      : compiler_(compiler), id_(id), node_(compiler.graph().node(id)) {
    const bool gradient = node_.op == Op::gradient;
    std::string why;
    rnn_ = make_rnn(library, compiler.graph(), node_, claimed_precision(node_),
                    gradient || node_.attributes.get_or<std::int64_t>("saved_bytes", 0) > 0, why);
    if (!rnn_) throw Error(ErrorKind::internal, "cuda", "a claimed layer is refused: " + why);
    const Device& device = *library.device;
    const CUdeviceptr weights = device.allocate(rnn_->weight_bytes(), "weights");
    try {
      pieces_ = rnn_->pieces(weights);
    } catch (...) {
      device.release(weights);
      throw;
    }
    device.release(weights);
  }
  void forward();
  void gradient();

 private:
  const Recurrent& layers() const { return rnn_->form().layers; }
  DType outside() const { return layers().dtype; }
  DType inside() const { return inside_dtype(layers()); }
  Operand input(int k) { return compiler_.operand(node_.inputs[k]); }
  Operand result(int k) { return compiler_.operand({id_, k}); }
  // A part of the memory that the node has.
  Operand part(const RnnSpace& space, Operand whole) const {
    device::skip(whole, static_cast<std::int64_t>(space.at), DType::b8);
    whole.bytes = space.bytes;
    return whole;
  }
  Operand scratch(Slot slot) const {
    const Plan& plan = compiler_.plan_;
    const Operand whole{{Storage::Place::arena, 0, plan.scratch_offset[id_], {}}, plan.scratch_bytes[id_]};
    return part(memory_.in_scratch(slot), whole);
  }
  Operand saved(Slot slot, const Operand& all) const { return part(memory_.in_saved(slot), all); }

  // The weights, where all parameters are constants.
  std::optional<Operand> constant_weights();
  // The weights, where all parameters are inputs of the plan: they are copied when one has changed.
  std::optional<Operand> packed_weights();
  // Those, or a part of the scratch to which every run copies them.
  Operand weights();
  void convert(DType from_dtype, const Operand& from, DType to_dtype, const Operand& to, std::size_t elements);
  void zero(const Operand& at, std::size_t bytes);
  void copy_parameters(const Operand& weights);
  void bind(Slot slot, Operand at) {
    slots_.push_back(slot);
    operands_.push_back(std::move(at));
  }
  // Binds a value, or its copy in the format of the library.
  void bind_input(Slot slot, const Operand& value, const Operand& copy);
  void call(RnnCall::Kind kind);

  NodeCompiler& compiler_;
  std::int32_t id_;
  const Node& node_;
  std::shared_ptr<const Rnn> rnn_;
  std::vector<RnnPiece> pieces_;
  RnnMemory memory_ = {};
  std::vector<Slot> slots_;
  device::Operands operands_;
};

void NodeCompiler::RnnNode::convert(DType from_dtype, const Operand& from, DType to_dtype, const Operand& to,
                                    std::size_t elements) {
  const Shape shape{static_cast<std::int64_t>(elements)};
  if (from_dtype == to_dtype) return compiler_.move(from_dtype, shape, {from, 0, {1}}, {to, 0, {1}});
  common::Expression e;
  e.shape = shape;
  e.inputs.push_back({from_dtype, {1}});
  e.instructions.push_back({.op = Op::cast, .dtype = from_dtype, .to = to_dtype, .a = 0});
  e.results.push_back({1, {1}});
  compiler_.expression(std::move(e), {from, to});
}

void NodeCompiler::RnnNode::copy_parameters(const Operand& weights) {
  for (const RnnPiece& piece : pieces_) {
    Operand from = input(static_cast<int>(layers().first_parameter + piece.parameter)), to = weights;
    device::skip(from, static_cast<std::int64_t>(piece.from), outside());
    device::skip(to, static_cast<std::int64_t>(piece.to), DType::b8);
    convert(outside(), from, inside(), to, piece.elements);
  }
}

void NodeCompiler::RnnNode::zero(const Operand& at, std::size_t bytes) {
  const std::size_t width = dtype_bytes(inside());
  compiler_.fill_zero(inside(), Shape{static_cast<std::int64_t>(bytes / width)}, {at, 0, {1}});
}

void NodeCompiler::RnnNode::bind_input(Slot slot, const Operand& value, const Operand& copy) {
  if (inside() == outside()) return bind(slot, value);
  convert(outside(), value, inside(), copy, elements_of(layers(), slot));
  bind(slot, copy);
}

void NodeCompiler::RnnNode::call(RnnCall::Kind kind) {
  Launch launch;
  launch.operands = operands_;
  launch.library = std::make_shared<const RnnCall>(rnn_, kind, slots_);
  compiler_.work_->launches.push_back(std::move(launch));
}

std::optional<Operand> NodeCompiler::RnnNode::constant_weights() {
  const std::size_t width = dtype_bytes(inside());
  std::vector<std::byte> bytes(rnn_->weight_bytes());
  for (const RnnPiece& piece : pieces_) {
    const Node& from = compiler_.graph().node(node_.inputs[layers().first_parameter + piece.parameter].node);
    if (from.op != Op::constant) return std::nullopt;
    const Tensor values = from.attributes.get<std::shared_ptr<const Tensor>>("value")->cast(inside());
    std::memcpy(bytes.data() + piece.to, values.bytes().data() + piece.from * width, piece.elements * width);
  }
  return compiler_.constant_block(bytes);
}

std::optional<Operand> NodeCompiler::RnnNode::packed_weights() {
  if (!compiler_.is_main_) return std::nullopt;
  Program& out = compiler_.out_;
  PackedWeights made{pieces_, {}, rnn_->weight_bytes(), inside(), {}};
  std::vector<std::int32_t> inputs;
  for (std::size_t k = layers().first_parameter; k < layers().n_inputs; ++k) {
    const Operand from = input(static_cast<int>(k));
    if (from.workspace || from.storage.place != Storage::Place::input) return std::nullopt;
    made.parameters.push_back(node_.inputs[k]), inputs.push_back(from.storage.index);
  }
  for (const PackedWeights& each : out.packed)
    if (each.holds(made)) return each.block;
  made.block = compiler_.workspace(made.bytes);
  NodeWork packing{id_};
  NodeWork* const work = std::exchange(compiler_.work_, &packing);
  copy_parameters(made.block);
  compiler_.work_ = work;
  work->note = launches_text(static_cast<std::int64_t>(packing.launches.size())) +
               " more in runs that find other parameters than the last one";
  out.packing.push_back(std::move(packing));
  out.packed_inputs.insert(out.packed_inputs.end(), inputs.begin(), inputs.end());
  out.packed.push_back(std::move(made));
  return out.packed.back().block;
}

Operand NodeCompiler::RnnNode::weights() {
  if (!rnn_->form().training)
    if (auto known = constant_weights()) return *known;
  if (auto packed = packed_weights()) return *packed;
  const Operand at = scratch(Slot::weights);
  zero(at, rnn_->weight_bytes());  // also what lies between the parameters
  copy_parameters(at);
  return at;
}

void NodeCompiler::RnnNode::forward() {
  const Recurrent& r = layers();
  memory_ = forward_memory(*rnn_);
  const bool training = rnn_->form().training, converts = inside() != outside();
  const auto n_outputs = static_cast<int>(r.n_outputs());
  const Operand all_saved = training ? result(n_outputs) : Operand{};
  const auto kept = [&](Slot slot) { return training ? saved(slot, all_saved) : scratch(slot); };
  bind(Slot::weights, weights());
  bind(Slot::workspace, scratch(Slot::workspace));
  if (training) bind(Slot::reserve, saved(Slot::reserve, all_saved));
  const Slot inputs[] = {Slot::x, Slot::h0, Slot::c0};
  for (int k = 0; k < (r.has_c() ? 3 : 2); ++k) bind_input(inputs[k], input(k), kept(inputs[k]));
  bind(Slot::y, converts ? kept(Slot::y) : result(0));
  const Slot states[] = {Slot::hn, Slot::cn};
  for (int k = 1; k < n_outputs; ++k) bind(states[k - 1], converts ? scratch(states[k - 1]) : result(k));
  call(RnnCall::Kind::forward);
  if (!converts) return;
  convert(inside(), kept(Slot::y), outside(), result(0), elements_of(r, Slot::y));
  for (int k = 1; k < n_outputs; ++k)
    convert(inside(), scratch(states[k - 1]), outside(), result(k), elements_of(r, states[k - 1]));
}

void NodeCompiler::RnnNode::gradient() {
  const Recurrent& r = layers();
  const GradientInputs in(node_, r);
  memory_ = gradient_memory(*rnn_, in.has_d_y(), in.wants_d_x());
  const bool converts = inside() != outside();
  const Operand all_saved = input(in.saved);
  bind(Slot::weights, weights());
  bind(Slot::reserve, saved(Slot::reserve, all_saved));
  bind(Slot::workspace, scratch(Slot::workspace));
  const Slot inputs[] = {Slot::x, Slot::h0, Slot::c0}, d_inputs[] = {Slot::d_x, Slot::d_h0, Slot::d_c0},
             d_outputs[] = {Slot::d_y, Slot::d_hn, Slot::d_cn};
  const int n_states = r.has_c() ? 3 : 2;
  for (int k = 0; k < n_states; ++k) bind(inputs[k], converts ? saved(inputs[k], all_saved) : input(k));
  bind(Slot::y, converts ? saved(Slot::y, all_saved) : input(in.outputs[0]));
  for (int k = 0; k < n_states; ++k) {
    const int cotangent = in.cotangents[k];
    if (cotangent >= 0) bind_input(d_outputs[k], input(cotangent), scratch(d_outputs[k]));
  }
  if (!in.has_d_y()) {
    zero(scratch(Slot::d_y), elements_of(r, Slot::d_y) * dtype_bytes(inside()));
    bind(Slot::d_y, scratch(Slot::d_y));
  }
  for (int k = 0; k < n_states; ++k) {
    const int wanted = in.wanted[k];
    if (wanted >= 0 && !converts) bind(d_inputs[k], result(wanted));
    else if (wanted >= 0 || k == 0) bind(d_inputs[k], scratch(d_inputs[k]));
  }
  call(RnnCall::Kind::gradient_of_data);
  for (int k = 0; converts && k < n_states; ++k)
    if (const int wanted = in.wanted[k]; wanted >= 0)
      convert(inside(), scratch(d_inputs[k]), outside(), result(wanted), elements_of(r, d_inputs[k]));
  const auto is_wanted = [&](const RnnPiece& piece) { return in.wanted[r.first_parameter + piece.parameter] >= 0; };
  if (std::none_of(pieces_.begin(), pieces_.end(), is_wanted)) return;
  zero(scratch(Slot::d_weights), rnn_->weight_bytes());  // the call adds
  bind(Slot::d_weights, scratch(Slot::d_weights));
  call(RnnCall::Kind::gradient_of_weights);
  for (const RnnPiece& piece : pieces_) {
    if (!is_wanted(piece)) continue;
    Operand from = scratch(Slot::d_weights), to = result(in.wanted[r.first_parameter + piece.parameter]);
    device::skip(from, static_cast<std::int64_t>(piece.to), DType::b8);
    device::skip(to, static_cast<std::int64_t>(piece.from), outside());
    convert(inside(), from, outside(), to, piece.elements);
  }
}

Operand NodeCompiler::constant_block(std::span<const std::byte> bytes) {
  constants_->push_back(out_.constants.size());
  out_.constants.insert(out_.constants.end(), bytes.begin(), bytes.end());
  out_.constants.resize(device::aligned(out_.constants.size()));
  return {{Storage::Place::constant, static_cast<std::int32_t>(constants_->size()) - 1, 0, {}}, bytes.size()};
}

void NodeCompiler::recurrent(std::int32_t id) {
  if (!rnn_) throw Error(ErrorKind::internal, "cuda", "a layer is claimed without cuDNN");
  RnnNode node(*this, id, *rnn_);
  if (graph().node(id).op == Op::gradient) node.gradient();
  else node.forward();
}

}  // namespace unroll::cuda
