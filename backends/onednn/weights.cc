// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/weights.h"

#include <algorithm>
#include <functional>

namespace unroll::onednn {

namespace {

// Returns the plain layout as oneDNN's tensor (l d i g o, and l d i o for the projection).
Desc plain_desc(const Recurrent& r, std::int64_t layer, Weight weight) {
  const std::int64_t D = r.D, G = r.gates(), H = r.H;
  const auto gates_by_rows = [&](std::int64_t columns) {
    return make_desc({1, D, columns, G, H}, {D * G * H * columns, G * H * columns, 1, H * columns, columns});
  };
  switch (weight) {
    case Weight::input: return gates_by_rows(r.width_in(layer));
    case Weight::recurrent: return gates_by_rows(r.P);
    case Weight::projection: return make_desc({1, D, H, r.P}, {D * r.P * H, r.P * H, 1, H});
    case Weight::peephole: return dense_desc({1, D, 3, H});
    case Weight::bias: break;
  }
  return dense_desc({1, D, G + (r.cell == Op::gru && r.reset_after), H});
}

// Collects pieces and joins adjacent ones.
class Pieces {
 public:
  Pieces(const Recurrent& r, std::vector<Piece>& list) : r_(r), list_(list) {}
  void direction(std::int64_t d) { d_ = d; }
  void copy(Parameter parameter, std::int64_t from, std::int64_t elements) {
    put(parameter, from, elements, to_, false);
    to_ += elements;
  }
  void add_to_last(Parameter parameter, std::int64_t from, std::int64_t elements) {
    put(parameter, from, elements, to_ - elements, true);
  }

 private:
  void put(Parameter parameter, std::size_t from, std::size_t elements, std::size_t to, bool add) {
    const Piece piece{d_ * r_.n_parameters + position_of(r_, parameter), from, to, elements, add};
    if (!list_.empty()) {
      Piece& last = list_.back();
      if (last.parameter == piece.parameter && last.from + last.elements == piece.from &&
          last.to + last.elements == piece.to && last.add == add) {
        last.elements += piece.elements;
        return;
      }
    }
    list_.push_back(piece);
  }

  const Recurrent& r_;
  std::vector<Piece>& list_;
  std::size_t d_ = 0, to_ = 0;
};

void add_biases(const Recurrent& r, Pieces& pieces) {
  const bool two_new_gates = r.cell == Op::gru && r.reset_after;  // b_hn stays inside r * (...)
  const std::vector<std::int64_t> order = gate_order(r);
  for (std::size_t k = 0; k < order.size(); ++k) {
    pieces.copy(Parameter::bias_ih, order[k] * r.H, r.H);
    if (!two_new_gates || k + 1 < order.size()) pieces.add_to_last(Parameter::bias_hh, order[k] * r.H, r.H);
  }
  if (two_new_gates) pieces.copy(Parameter::bias_hh, order.back() * r.H, r.H);
}

bool is_whole(const std::vector<Piece>& pieces) { return pieces.size() == 1; }

std::unique_ptr<Reorder> reorder_unless_equal(const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to) {
  return library().memory_desc_equal(from, to) ? nullptr : std::make_unique<Reorder>(from, to);
}

}  // namespace

int argument_of(Weight weight) {
  constexpr int k_arguments[] = {DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_WEIGHTS_PEEPHOLE,
                                 DNNL_ARG_WEIGHTS_PROJECTION, DNNL_ARG_BIAS};
  return k_arguments[static_cast<std::size_t>(weight)];
}
int gradient_argument_of(Weight weight) {
  constexpr int k_arguments[] = {DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER,
                                 DNNL_ARG_DIFF_WEIGHTS_PEEPHOLE, DNNL_ARG_DIFF_WEIGHTS_PROJECTION, DNNL_ARG_DIFF_BIAS};
  return k_arguments[static_cast<std::size_t>(weight)];
}

std::vector<Piece> pieces_of(const Recurrent& r, std::int64_t layer, Weight weight) {
  std::vector<Piece> list;
  Pieces pieces(r, list);
  const auto gates = [&](Parameter parameter, std::int64_t columns) {
    for (const std::int64_t gate : gate_order(r)) pieces.copy(parameter, gate * r.H * columns, r.H * columns);
  };
  for (std::int64_t d = 0; d < r.D; ++d) {
    pieces.direction(d);
    if (weight == Weight::input) gates(Parameter::weight_ih, r.width_in(layer));
    if (weight == Weight::recurrent) gates(Parameter::weight_hh, r.P);
    if (weight == Weight::projection && r.projects) pieces.copy(Parameter::weight_hr, 0, r.P * r.H);
    if (weight == Weight::peephole && r.peephole)
      for (const auto parameter : {Parameter::weight_ci, Parameter::weight_cf, Parameter::weight_co})
        pieces.copy(parameter, 0, r.H);
    if (weight == Weight::bias && r.bias) add_biases(r, pieces);
  }
  return list;
}

WeightIn::WeightIn(const Recurrent& r, std::int64_t layer, Weight weight, const PrimitiveDesc& user, Space& scratch)
    : argument_(argument_of(weight)), pieces_(pieces_of(r, layer, weight)) {
  const const_dnnl_memory_desc_t wanted = layout_of(user, argument_);
  if (pieces_.empty()) {
    zero_bytes_ = bytes_of(wanted);
    packed_ = scratch.take(zero_bytes_);
    return;
  }
  const Desc plain = plain_desc(r, layer, weight);
  reorder_ = reorder_unless_equal(plain.get(), wanted);
  if (!is_whole(pieces_)) plain_ = scratch.take(bytes_of(plain.get()));
  if (!reorder_) return;
  packed_ = scratch.take(bytes_of(wanted));
  reorder_scratch_ = scratch.take(reorder_->scratch_bytes());
}

void WeightIn::prepare() {
  if (reorder_) reorder_->prepare();
}

void WeightIn::pack(const float* const* parameters, std::byte* scratch, Primitive& into) {
  if (pieces_.empty()) {
    std::fill_n(scratch + packed_, zero_bytes_, std::byte{0});
    return into.place(argument_, scratch + packed_);
  }
  const float* plain =
      is_whole(pieces_) ? parameters[pieces_[0].parameter] : reinterpret_cast<float*>(scratch + plain_);
  if (!is_whole(pieces_)) {
    float* to = reinterpret_cast<float*>(scratch + plain_);
    for (const Piece& p : pieces_) {
      const float* from = parameters[p.parameter] + p.from;
      if (p.add) std::transform(from, from + p.elements, to + p.to, to + p.to, std::plus<>());
      else std::copy(from, from + p.elements, to + p.to);
    }
  }
  if (reorder_) reorder_->run(plain, scratch + packed_, scratch + reorder_scratch_);
  into.place(argument_, reorder_ ? static_cast<const void*>(scratch + packed_) : plain);
}

WeightOut::WeightOut(const Recurrent& r, std::int64_t layer, Weight weight, const PrimitiveDesc& maker, Space& scratch)
    : argument_(gradient_argument_of(weight)), pieces_(pieces_of(r, layer, weight)) {
  const const_dnnl_memory_desc_t made = layout_of(maker, argument_);
  made_ = scratch.take(bytes_of(made));
  if (pieces_.empty()) return;
  const Desc plain = plain_desc(r, layer, weight);
  reorder_ = reorder_unless_equal(made, plain.get());
  if (!reorder_) return;
  plain_ = is_whole(pieces_) ? 0 : scratch.take(bytes_of(plain.get()));
  reorder_scratch_ = scratch.take(reorder_->scratch_bytes());
}

void WeightOut::prepare() {
  if (reorder_) reorder_->prepare();
}

void WeightOut::place(std::byte* scratch, Primitive& maker) const {
  maker.place(argument_, scratch + made_);
}

void WeightOut::unpack(float* const* gradients, std::byte* scratch) {
  if (std::none_of(pieces_.begin(), pieces_.end(), [&](const Piece& p) { return gradients[p.parameter]; })) return;
  const float* plain = reinterpret_cast<float*>(scratch + made_);
  if (reorder_) {
    float* to = is_whole(pieces_) ? gradients[pieces_[0].parameter] : reinterpret_cast<float*>(scratch + plain_);
    reorder_->run(plain, to, scratch + reorder_scratch_);
    plain = to;
  }
  for (const Piece& p : pieces_) {  // both biases have the gradient of their sum
    float* to = gradients[p.parameter];
    if (to && to + p.from != plain + p.to) std::copy(plain + p.to, plain + p.to + p.elements, to + p.from);
  }
}

}  // namespace unroll::onednn
