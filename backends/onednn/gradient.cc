// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/gradient.h"

#include <algorithm>
#include <cstring>

namespace unroll::onednn {

namespace {

constexpr int k_gradient_arguments[] = {
    DNNL_ARG_SRC_LAYER, DNNL_ARG_SRC_ITER, DNNL_ARG_SRC_ITER_C,
    DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_WEIGHTS_PEEPHOLE, DNNL_ARG_WEIGHTS_PROJECTION,
    DNNL_ARG_BIAS,
    DNNL_ARG_DST_LAYER, DNNL_ARG_DST_ITER, DNNL_ARG_DST_ITER_C,
    DNNL_ARG_DIFF_SRC_LAYER, DNNL_ARG_DIFF_SRC_ITER, DNNL_ARG_DIFF_SRC_ITER_C,
    DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_WEIGHTS_PEEPHOLE,
    DNNL_ARG_DIFF_WEIGHTS_PROJECTION, DNNL_ARG_DIFF_BIAS,
    DNNL_ARG_DIFF_DST_LAYER, DNNL_ARG_DIFF_DST_ITER, DNNL_ARG_DIFF_DST_ITER_C,
    DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD};

bool all_made(const std::vector<PrimitiveDesc>& descs) {
  return std::all_of(descs.begin(), descs.end(), [](const PrimitiveDesc& d) { return d != nullptr; });
}

}  // namespace

Gradient::Gradient(const Recurrent& r) : r_(r) {
  for (std::int64_t l = 0; l < r.L; ++l) training_.push_back(make_forward(r, l, dnnl_forward_training));
  exists_ = all_made(training_);
  if (!exists_) return;
  for (std::int64_t l = 0; l < r.L; ++l) descs_.push_back(make_backward(r, l, training_[l]));
  exists_ = all_made(descs_);
  if (!exists_) return;
  saved_ = Saved(r, training_);
  const std::size_t state = r.D * r.B * std::max(r.H, r.P) * sizeof(float);
  const std::size_t y = r.y_elements() * sizeof(float);
  Space common;
  x_ = Converted(Way::in, r.x_elements(), r.format, common);
  h0_ = Converted(Way::in, r.h_elements(), r.format, common);
  y_ = Converted(Way::in, r.y_elements(), r.format, common);
  hn_ = Converted(Way::in, r.h_elements(), r.format, common);
  zero_bytes_ = std::max(state, y);
  zeros_ = common.take(zero_bytes_);
  unwanted_h_ = common.take(state);
  unwanted_c_ = common.take(state);
  for (std::size_t& d_x : d_x_)
    d_x = common.take(std::max(y, r.x_elements() * sizeof(float)));
  for (std::int64_t l = 0; l < r.L; ++l) {
    const PrimitiveDesc& desc = descs_[l];
    Space space = common;  // layers run one after the other
    Layer layer{};
    for (const Weight weight : k_weights) {
      layer.weights.emplace_back(r, l, weight, desc, space);
      layer.d_weights.emplace_back(r, l, weight, desc, space);
    }
    layer.primitive_scratch = space.take(bytes_of(layout_of(desc, DNNL_ARG_SCRATCHPAD)));
    scratch_bytes_ = std::max(scratch_bytes_, space.used());
    layers_.push_back(std::move(layer));
  }
}

void Gradient::prepare() {
  for (Converted* tensor : {&x_, &h0_, &y_, &hn_}) tensor->prepare();
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    for (WeightIn& weight : layers_[l].weights) weight.prepare();
    for (WeightOut& weight : layers_[l].d_weights) weight.prepare();
    layers_[l].primitive = std::make_unique<Primitive>(descs_[l], k_gradient_arguments);
  }
}

void Gradient::run(const GradientOperands& o) {
  if (!o.d_y || !o.d_hn || (r_.has_c() && !o.d_cn)) std::memset(o.scratch + zeros_, 0, zero_bytes_);
  const Inside inside{x_.in(o.x, o.scratch), h0_.in(o.h0, o.scratch), y_.in(o.y, o.scratch), hn_.in(o.hn, o.scratch)};
  const void* d_y = o.d_y ? static_cast<const void*>(o.d_y) : o.scratch + zeros_;
  for (std::size_t l = layers_.size(); l-- > 0;) {
    void* d_x = l == 0 && o.d_x ? static_cast<void*>(o.d_x) : o.scratch + d_x_[l % 2];
    run_layer(l, o, inside, d_y, d_x);
    d_y = d_x;
  }
}

void Gradient::run_layer(std::size_t l, const GradientOperands& o, const Inside& inside, const void* d_y, void* d_x) {
  Layer& layer = layers_[l];
  Primitive& p = *layer.primitive;
  const std::size_t D = r_.D;
  const std::size_t h = l * D * r_.B * r_.P, c = l * D * r_.B * r_.H;
  const std::size_t first = l * D * r_.n_parameters;
  const bool is_last = l + 1 == layers_.size();
  const std::byte* zeros = o.scratch + zeros_;
  const auto given = [&](const float* cotangent, std::size_t offset) -> const void* {
    return cotangent ? static_cast<const void*>(cotangent + offset) : zeros;
  };
  const auto wanted = [&](float* gradient, std::size_t offset, std::size_t unwanted) -> void* {
    return gradient ? static_cast<void*>(gradient + offset) : o.scratch + unwanted;
  };
  for (WeightIn& weight : layer.weights) weight.pack(o.parameters.data() + first, o.scratch, p);
  for (const WeightOut& weight : layer.d_weights) weight.place(o.scratch, p);
  p.place(DNNL_ARG_SRC_LAYER, l == 0 ? inside.x : o.saved + saved_.y[l - 1]);
  p.place(DNNL_ARG_SRC_ITER, inside.h0 + h * dtype_bytes(r_.format));
  p.place(DNNL_ARG_DST_LAYER, is_last ? inside.y : o.saved + saved_.y[l]);
  p.place(DNNL_ARG_DST_ITER, inside.hn + h * dtype_bytes(r_.format));
  p.place(DNNL_ARG_DIFF_DST_LAYER, d_y);
  p.place(DNNL_ARG_DIFF_DST_ITER, given(o.d_hn, h));
  p.place(DNNL_ARG_DIFF_SRC_LAYER, d_x);
  p.place(DNNL_ARG_DIFF_SRC_ITER, wanted(o.d_h0, h, unwanted_h_));
  if (r_.has_c()) {
    p.place(DNNL_ARG_SRC_ITER_C, o.c0 + c);
    p.place(DNNL_ARG_DST_ITER_C, o.cn + c);
    p.place(DNNL_ARG_DIFF_DST_ITER_C, given(o.d_cn, c));
    p.place(DNNL_ARG_DIFF_SRC_ITER_C, wanted(o.d_c0, c, unwanted_c_));
  }
  p.place(DNNL_ARG_WORKSPACE, o.saved + saved_.workspace[l]);
  p.place(DNNL_ARG_SCRATCHPAD, o.scratch + layer.primitive_scratch);
  p.run();
  for (WeightOut& weight : layer.d_weights) weight.unpack(o.d_parameters.data() + first, o.scratch);
}

}  // namespace unroll::onednn
