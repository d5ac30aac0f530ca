// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/recurrent.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "backends/device/lowering.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using common::Recurrent;
using device::Operand;
using Slot = RnnSlot;

constexpr std::int64_t k_most_steps = 65535;

struct RnnRefusal {
  bool (*applies)(const Recurrent&);
  const char* why;
};
bool is_too_large(const Recurrent& r) {
  constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t sizes[] = {r.T, r.B, r.I, r.H, r.P, r.L, r.L * r.D * r.B * r.H, r.B * r.D * r.P, r.B * r.I};
  return std::any_of(std::begin(sizes), std::end(sizes), [](std::int64_t size) { return size > k_most; });
}
constexpr RnnRefusal k_rnn_refusals[] = {
    {[](const Recurrent& r) { return r.T == 0 || r.B == 0; }, "there is nothing to compute"},
    {[](const Recurrent& r) { return r.I == 0; }, "x has no columns"},
    {[](const Recurrent& r) { return r.lengths; },
     "it has lengths: cuDNN reads them on the host, when the run is recorded, and they are values of the device"},
    {[](const Recurrent& r) { return r.dropout > 0 && r.L > 1; },
     "it has dropout between layers: cuDNN draws other masks than the body"},
    {[](const Recurrent& r) { return r.peephole; }, "it has peepholes, which cuDNN's lstm lacks"},
    {[](const Recurrent& r) { return r.cell == Op::gru && !r.reset_after; },
     "its reset gate comes before the product; cuDNN's comes after it"},
    {[](const Recurrent& r) { return r.T > k_most_steps; }, "it has more than the 65,535 steps that cuDNN takes"},
    {is_too_large, "a size of it does not fit into 32 bits"},
};

std::string why_not(const Recurrent& r) {
  for (const RnnRefusal& row : k_rnn_refusals)
    if (row.applies(r)) return row.why;
  return "";
}

DType format_of(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : precision == Precision::f16 ? DType::f16 : DType::f32;
}

// Hands out parts of a block of memory.
class Takes {
 public:
  Takes(std::array<RnnSpace, 16>& spaces, std::size_t& bytes) : spaces_(spaces), bytes_(bytes) {}
  void take(Slot slot, std::size_t bytes) {
    spaces_[static_cast<std::size_t>(slot)] = {bytes_, bytes};
    bytes_ += device::aligned(bytes);
  }
  void take_values(const Recurrent& r, std::initializer_list<Slot> slots) {
    for (const Slot slot : slots) take(slot, elements_of(r, slot) * dtype_bytes(inside_dtype(r)));
  }

 private:
  std::array<RnnSpace, 16>& spaces_;
  std::size_t& bytes_;
};

}  // namespace

Precision claimed_precision(const Node& node) {
  const auto format = node.attributes.get_or<DType>("format", DType::f32);
  if (is_half(format)) return format == DType::bf16 ? Precision::bf16 : Precision::f16;
  return node.attributes.get_or<bool>("tf32", false) ? Precision::tf32 : Precision::f32;
}

GradientInputs::GradientInputs(const Node& node, const Recurrent& r) : wanted(r.n_inputs, -1) {
  const Ints &d_outputs = node.attributes.get<Ints>("d_outputs"), &d_inputs = node.attributes.get<Ints>("d_inputs");
  const auto n_inputs = static_cast<int>(r.n_inputs), n_cotangents = static_cast<int>(d_outputs.size());
  for (int k = 0; k < n_cotangents; ++k)
    cotangents[d_outputs[k]] = n_inputs + k;
  for (int k = 0; k < static_cast<int>(r.n_outputs()); ++k)
    outputs[k] = n_inputs + n_cotangents + k;
  saved = n_inputs + n_cotangents + static_cast<int>(r.n_outputs());
  for (std::size_t k = 0; k < d_inputs.size(); ++k)
    wanted[d_inputs[k]] = static_cast<int>(k);
}

std::shared_ptr<const Rnn> make_rnn(const RnnLibrary& library, const Graph& graph, const Node& node,
                                    Precision precision, bool training, std::string& why) {
  RnnForm form;
  form.layers = common::recurrent_of(graph, node, format_of(precision));
  form.tf32 = precision == Precision::tf32;
  form.training = training;
  why = why_not(form.layers);
  if (!why.empty()) return nullptr;
  return chosen_rnn(library, std::move(form), why);
}

RnnMemory forward_memory(const Rnn& rnn) {
  RnnMemory memory;
  const Recurrent& r = rnn.form().layers;
  Takes saved(memory.saved, memory.saved_bytes), scratch(memory.scratch, memory.scratch_bytes);
  Takes& kept = rnn.form().training ? saved : scratch;
  if (rnn.form().training) saved.take(Slot::reserve, rnn.reserve_bytes());
  scratch.take(Slot::weights, rnn.weight_bytes());
  scratch.take(Slot::workspace, rnn.workspace_bytes());
  if (!is_half(r.format)) return memory;
  kept.take_values(r, {Slot::x, Slot::h0, Slot::c0, Slot::y});
  scratch.take_values(r, {Slot::hn, Slot::cn});
  return memory;
}

RnnMemory gradient_memory(const Rnn& rnn, bool has_d_y, bool wants_d_x) {
  RnnMemory memory = forward_memory(rnn);  // for what is saved
  memory.scratch = {};
  memory.scratch_bytes = 0;
  const Recurrent& r = rnn.form().layers;
  Takes scratch(memory.scratch, memory.scratch_bytes);
  scratch.take(Slot::weights, rnn.weight_bytes());
  scratch.take(Slot::workspace, rnn.workspace_bytes());
  scratch.take(Slot::d_weights, rnn.weight_bytes());
  if (is_half(r.format))
    scratch.take_values(r, {Slot::d_y, Slot::d_hn, Slot::d_cn, Slot::d_x, Slot::d_h0, Slot::d_c0});
  else {
    if (!has_d_y) scratch.take_values(r, {Slot::d_y});
    if (!wants_d_x) scratch.take_values(r, {Slot::d_x});
  }
  return memory;
}

Claim claim_recurrent(const RnnLibrary& library, const Graph& graph, const Node& node, Precision precision) {
  const bool gradient = node.op == Op::gradient;
  const Op cell = gradient ? find_op(node.attributes.get<std::string>("of"))->op : node.op;
  if (cell != Op::rnn && cell != Op::gru && cell != Op::lstm)
    return {.reason = "cuDNN claims recurrent layers only; its body runs"};
  Claim claim;
  const auto rnn = make_rnn(library, graph, node, precision, gradient, claim.reason);
  if (!rnn) return claim;
  const Recurrent& r = rnn->form().layers;
  claim.yes = true;
  if (is_half(r.format)) claim.format = r.format;
  claim.tf32 = rnn->form().tf32;
  const RnnMemory forward = forward_memory(*rnn);
  claim.scratch_bytes = forward.scratch_bytes;
  if (!gradient) return claim;
  const GradientInputs inputs(node, r);
  claim.saved_bytes = forward.saved_bytes;
  claim.saving_scratch_bytes = forward.scratch_bytes;
  claim.scratch_bytes = gradient_memory(*rnn, inputs.has_d_y(), inputs.wants_d_x()).scratch_bytes;
  return claim;
}

}  // namespace unroll::cuda
