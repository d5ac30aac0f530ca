// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/recurrent.h"

namespace unroll::onednn {

namespace {

struct Refusal {
  bool (*applies)(const Recurrent&);
  const char* why;
};
constexpr Refusal k_refusals[] = {
    {[](const Recurrent& r) { return r.dtype != DType::f32; }, "oneDNN's recurrent primitives compute in f32 only"},
    {[](const Recurrent& r) { return r.T == 0 || r.B == 0; }, "there is nothing to compute"},
    {[](const Recurrent& r) { return r.I == 0; }, "x has no columns"},
    {[](const Recurrent& r) { return r.lengths; },
     "it has lengths: oneDNN's recurrent primitives run every row to the end"},
    {[](const Recurrent& r) { return r.projects && is_half(r.format); },
     "it has a projection: oneDNN offers the primitive in 16 bits and fails when it runs"},
    {[](const Recurrent& r) { return r.dropout > 0 && r.L > 1; },
     "it has dropout between layers, whose masks the body draws"},
};

// The tensors of one layer. The primitive chooses the layout of the weights. A bias is always present, because oneDNN
// has no kernels without one.
struct Tensors {
  Desc x, h, c, weight_ih, weight_hh, peephole, projection, bias, y;

  Tensors(const Recurrent& r, std::int64_t layer, DType format)
      : x(dense_desc({r.T, r.B, r.width_in(layer)}, format)),
        h(dense_desc({1, r.D, r.B, r.P}, format)),
        c(r.has_c() ? dense_desc({1, r.D, r.B, r.H}) : nullptr),
        weight_ih(open_desc({1, r.D, r.width_in(layer), r.gates(), r.H}, format)),
        weight_hh(open_desc({1, r.D, r.P, r.gates(), r.H}, format)),
        peephole(r.peephole ? dense_desc({1, r.D, 3, r.H}) : nullptr),
        projection(r.projects ? open_desc({1, r.D, r.H, r.P}, format) : nullptr),
        bias(dense_desc({1, r.D, r.gates() + (r.cell == Op::gru && r.reset_after), r.H})),
        y(dense_desc({r.T, r.B, r.D * r.P}, format)) {}
};

dnnl_rnn_direction_t direction_of(const Recurrent& r) {
  return r.D == 2 ? dnnl_bidirectional_concat : dnnl_unidirectional_left2right;
}
dnnl_alg_kind_t activation_of(const Recurrent& r) { return r.relu ? dnnl_eltwise_relu : dnnl_eltwise_tanh; }

// Returns null for a kernel that does not exist; any other failure throws.
PrimitiveDesc owned_if_made(dnnl_status_t status, dnnl_primitive_desc_t desc) {
  if (status == dnnl_unimplemented) return nullptr;
  check(status, "choosing a recurrent primitive");
  return PrimitiveDesc(desc);
}

}  // namespace

std::string refusal(const Recurrent& r) {
  for (const Refusal& row : k_refusals)
    if (row.applies(r)) return row.why;
  return "";
}

std::vector<std::int64_t> gate_order(const Recurrent& r) {
  if (r.cell == Op::lstm) return {0, 1, 2, 3};
  if (r.cell == Op::gru) return {1, 0, 2};
  return {0};
}

int threads_for(const Recurrent& r, int n) {
  constexpr std::int64_t k_least_products = 1 << 17;  // of a step: about ten microseconds, the time of a few barriers
  return r.B * r.gates() * r.H * r.P < k_least_products ? 1 : n;
}

PrimitiveDesc make_forward(const Recurrent& r, std::int64_t layer, dnnl_prop_kind_t kind) {
  const Library& l = library();
  const ThreadCount threads(threads_for(r, 0));
  const Tensors t(r, layer, r.format);
  const auto attr = caller_owns_scratch();
  const auto direction = direction_of(r);
  const auto x = t.x.get(), h = t.h.get(), c = t.c.get(), w = t.weight_ih.get(), u = t.weight_hh.get(),
             b = t.bias.get(), y = t.y.get();
  dnnl_primitive_desc_t desc = nullptr;
  dnnl_status_t status = dnnl_unimplemented;
  if (r.cell == Op::rnn)
    status = l.vanilla_rnn_forward_primitive_desc_create(&desc, l.engine, kind, activation_of(r), direction, x, h, w, u,
                                                         b, y, h, dnnl_rnn_flags_undef, 0, 0, attr.get());
  else if (r.cell == Op::lstm)
    status = l.lstm_forward_primitive_desc_create(&desc, l.engine, kind, direction, x, h, c, w, u, t.peephole.get(),
                                                  t.projection.get(), b, y, h, c, dnnl_rnn_flags_undef, attr.get());
  else
    status = (r.reset_after ? l.lbr_gru_forward_primitive_desc_create : l.gru_forward_primitive_desc_create)(
        &desc, l.engine, kind, direction, x, h, w, u, b, y, h, dnnl_rnn_flags_undef, attr.get());
  return owned_if_made(status, desc);
}

PrimitiveDesc make_backward(const Recurrent& r, std::int64_t layer, const PrimitiveDesc& training) {
  const Library& l = library();
  const ThreadCount threads(threads_for(r, 0));
  const Tensors t(r, layer, r.format), d(r, layer, DType::f32);
  const auto attr = caller_owns_scratch();
  const auto direction = direction_of(r);
  const auto x = t.x.get(), h = t.h.get(), c = t.c.get(), w = t.weight_ih.get(), u = t.weight_hh.get(),
             b = t.bias.get(), y = t.y.get(), p = t.peephole.get(), q = t.projection.get();
  const auto dx = d.x.get(), dh = d.h.get(), dc = d.c.get(), dw = d.weight_ih.get(), du = d.weight_hh.get(),
             db = d.bias.get(), dy = d.y.get(), dp = d.peephole.get(), dq = d.projection.get();
  constexpr unsigned k_flags = dnnl_rnn_flags_diff_weights_overwrite;
  dnnl_primitive_desc_t desc = nullptr;
  dnnl_status_t status = dnnl_unimplemented;
  // Every tensor twice: itself, then its gradient.
  if (r.cell == Op::rnn)
    status = l.vanilla_rnn_backward_primitive_desc_create(&desc, l.engine, dnnl_backward, activation_of(r), direction,
                                                          x, h, w, u, b, y, h, dx, dh, dw, du, db, dy, dh, k_flags,
                                                          0, 0, training.get(), attr.get());
  else if (r.cell == Op::lstm)
    status =
        l.lstm_backward_primitive_desc_create(&desc, l.engine, dnnl_backward, direction, x, h, c, w, u, p, q, b, y, h,
                                              c, dx, dh, dc, dw, du, dp, dq, db, dy, dh, dc, k_flags, training.get(),
                                              attr.get());
  else
    status = (r.reset_after ? l.lbr_gru_backward_primitive_desc_create : l.gru_backward_primitive_desc_create)(
        &desc, l.engine, dnnl_backward, direction, x, h, w, u, b, y, h, dx, dh, dw, du, db, dy, dh, k_flags,
        training.get(), attr.get());
  return owned_if_made(status, desc);
}

}  // namespace unroll::onednn
