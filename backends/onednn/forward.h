// SPDX-License-Identifier: Apache-2.0
// The forward pass of a stack of recurrent layers, and the values that it saves for the gradient.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/onednn/converted.h"

namespace unroll::onednn {

// Saved values: the primitive's workspace of each layer, and y of all layers but the last, in r.format.
struct Saved {
  std::vector<std::size_t> workspace, y;  // [layer], offsets
  std::size_t bytes = 0;

  Saved() = default;
  Saved(const Recurrent& r, const std::vector<PrimitiveDesc>& training);
};

// Shapes as in the op reference (docs/conventions.md).
struct ForwardOperands {
  const float *x, *h0, *c0;              // c0 only for lstm, else null
  std::vector<const float*> parameters;  // of all layers and directions
  float *y, *hn, *cn;
  std::byte *saved, *scratch;            // saved null for inference
};

class Forward {
 public:
  Forward(const Recurrent& r, bool saving);
  bool exists() const { return exists_; }  // true if oneDNN has primitives for all layers
  std::size_t saved_bytes() const { return saved_.bytes; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::string kernel() const { return kernel_of(descs_[0]); }

  void prepare();  // once, before the first run
  void run(const ForwardOperands& operands);

 private:
  struct Layer {
    std::vector<WeightIn> weights;
    std::size_t primitive_scratch;
    std::unique_ptr<Primitive> primitive;
  };
  // Inside tensor y of a layer.
  std::byte* y_of(std::size_t layer, const ForwardOperands& operands) const;

  Recurrent r_;
  bool saving_, exists_;
  std::vector<PrimitiveDesc> descs_;
  std::vector<Layer> layers_;
  Saved saved_;
  Converted x_, h0_, y_, hn_;
  std::size_t between_[2] = {};  // y between layers, if nothing is saved
  std::size_t scratch_bytes_ = 0;
};

}  // namespace unroll::onednn
