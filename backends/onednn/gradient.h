// SPDX-License-Identifier: Apache-2.0
// The gradient of a stack of recurrent layers from the saved values of the forward pass, last layer first.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/onednn/forward.h"

namespace unroll::onednn {

struct GradientOperands {
  const float *x, *h0, *c0;
  std::vector<const float*> parameters;
  const float *d_y, *d_hn, *d_cn;  // cotangents; null means zeros
  const float *y, *hn, *cn;        // of the forward pass
  const std::byte* saved;
  float *d_x, *d_h0, *d_c0;        // null if not needed
  std::vector<float*> d_parameters;
  std::byte* scratch;
};

class Gradient {
 public:
  explicit Gradient(const Recurrent& r);
  bool exists() const { return exists_; }
  std::size_t saved_bytes() const { return saved_.bytes; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::string kernel() const { return kernel_of(descs_[0]); }

  void prepare();
  void run(const GradientOperands& operands);

 private:
  struct Layer {
    std::vector<WeightIn> weights;
    std::vector<WeightOut> d_weights;
    std::size_t primitive_scratch;
    std::unique_ptr<Primitive> primitive;
  };
  // Operands in r.format.
  struct Inside {
    const std::byte *x, *h0, *y, *hn;
  };
  void run_layer(std::size_t l, const GradientOperands& operands, const Inside& inside, const void* d_y, void* d_x);

  Recurrent r_;
  bool exists_;
  std::vector<PrimitiveDesc> training_, descs_;
  std::vector<Layer> layers_;
  Saved saved_;
  Converted x_, h0_, y_, hn_;
  // Offsets in the scratch: zeros for missing cotangents, unneeded gradients, and gradients between layers.
  std::size_t zeros_ = 0, unwanted_h_ = 0, unwanted_c_ = 0, d_x_[2] = {};
  std::size_t zero_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace unroll::onednn
