// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/forward.h"

#include <algorithm>

namespace unroll::onednn {

namespace {

constexpr int k_arguments[] = {
    DNNL_ARG_SRC_LAYER, DNNL_ARG_SRC_ITER, DNNL_ARG_SRC_ITER_C,
    DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_WEIGHTS_PEEPHOLE, DNNL_ARG_WEIGHTS_PROJECTION,
    DNNL_ARG_BIAS,
    DNNL_ARG_DST_LAYER, DNNL_ARG_DST_ITER, DNNL_ARG_DST_ITER_C,
    DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD};

}  // namespace

Saved::Saved(const Recurrent& r, const std::vector<PrimitiveDesc>& training) {
  Space space;
  for (std::size_t l = 0; l < training.size(); ++l) {
    workspace.push_back(space.take(bytes_of(layout_of(training[l], DNNL_ARG_WORKSPACE))));
    y.push_back(l + 1 < training.size() ? space.take(r.y_bytes()) : 0);
  }
  bytes = space.used();
}

Forward::Forward(const Recurrent& r, bool saving) : r_(r), saving_(saving) {
  for (std::int64_t l = 0; l < r.L; ++l)
    descs_.push_back(make_forward(r, l, saving ? dnnl_forward_training : dnnl_forward_inference));
  exists_ = std::all_of(descs_.begin(), descs_.end(), [](const PrimitiveDesc& d) { return d != nullptr; });
  if (!exists_) return;
  if (saving) saved_ = Saved(r, descs_);
  Space common;
  x_ = Converted(Way::in, r.x_elements(), r.format, common);
  h0_ = Converted(Way::in, r.h_elements(), r.format, common);
  y_ = Converted(Way::out, r.y_elements(), r.format, common);
  hn_ = Converted(Way::out, r.h_elements(), r.format, common);
  if (!saving && r.L > 1)
    for (std::size_t& y : between_) y = common.take(r.y_bytes());
  for (std::int64_t l = 0; l < r.L; ++l) {
    const PrimitiveDesc& desc = descs_[l];
    Space space = common;  // layers run one after the other
    Layer layer{};
    for (const Weight weight : k_weights) layer.weights.emplace_back(r, l, weight, desc, space);
    layer.primitive_scratch = space.take(bytes_of(layout_of(desc, DNNL_ARG_SCRATCHPAD)));
    scratch_bytes_ = std::max(scratch_bytes_, space.used());
    layers_.push_back(std::move(layer));
  }
}

void Forward::prepare() {
  for (Converted* tensor : {&x_, &h0_, &y_, &hn_}) tensor->prepare();
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    for (WeightIn& weight : layers_[l].weights) weight.prepare();
    layers_[l].primitive = std::make_unique<Primitive>(descs_[l], k_arguments);
  }
}

std::byte* Forward::y_of(std::size_t layer, const ForwardOperands& o) const {
  if (layer + 1 == layers_.size()) return y_.inside(o.y, o.scratch);
  return saving_ ? o.saved + saved_.y[layer] : o.scratch + between_[layer % 2];
}

void Forward::run(const ForwardOperands& o) {
  const std::byte* x = x_.in(o.x, o.scratch);
  const std::byte* h0 = h0_.in(o.h0, o.scratch);
  std::byte* hn = hn_.inside(o.hn, o.scratch);
  const std::size_t D = r_.D;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    Primitive& p = *layer.primitive;
    for (WeightIn& weight : layer.weights)
      weight.pack(o.parameters.data() + l * D * r_.n_parameters, o.scratch, p);
    const std::size_t h = l * D * r_.B * r_.P * dtype_bytes(r_.format), c = l * D * r_.B * r_.H;
    p.place(DNNL_ARG_SRC_LAYER, x);
    p.place(DNNL_ARG_SRC_ITER, h0 + h);
    p.place(DNNL_ARG_DST_LAYER, y_of(l, o));
    p.place(DNNL_ARG_DST_ITER, hn + h);
    if (r_.has_c()) {
      p.place(DNNL_ARG_SRC_ITER_C, o.c0 + c);
      p.place(DNNL_ARG_DST_ITER_C, o.cn + c);
    }
    if (saving_) p.place(DNNL_ARG_WORKSPACE, o.saved + saved_.workspace[l]);
    p.place(DNNL_ARG_SCRATCHPAD, o.scratch + layer.primitive_scratch);
    p.run();
    x = y_of(l, o);
  }
  y_.out(o.y, o.scratch);
  hn_.out(o.hn, o.scratch);
}

}  // namespace unroll::onednn
