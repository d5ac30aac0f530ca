// SPDX-License-Identifier: Apache-2.0
// Recurrent layers as cuDNN defines them, on the host: values, gradients, and where weights lie. For tests (cudnn.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/library/cudnn.h"
#include "unroll/support/types.h"

namespace unroll::shim {

// T time, B batch, I input, H hidden, P output (projection, or H), L layers, D directions.
struct Layers {
  cuda::dnn::Cell cell;
  DType type;  // of all numbers in memory
  std::int64_t T, B, I, H, P, L, D;
  bool bias, tf32;  // tf32: products round their operands

  std::int64_t gates() const;
  std::int64_t width_in(std::int64_t layer) const { return layer == 0 ? I : D * P; }
  bool projects() const { return P != H; }
};

// A matrix or a bias: linear layer `number` of a pseudo-layer. No rows: there is none.
struct WeightPlace {
  std::size_t at = 0;  // in the weights, in bytes
  std::int64_t rows = 0, columns = 0;
};
WeightPlace weight_place(const Layers& layers, std::int64_t pseudo_layer, std::int64_t number, bool is_bias);
// Between parameters there are gaps, which must be zero.
std::size_t weight_bytes(const Layers& layers);
bool gaps_are_zero(const Layers& layers, const void* weights);

// What the forward pass leaves for the gradient, in the reserve.
std::size_t reserve_bytes(const Layers& layers);

struct ForwardPass {
  const void *x, *h0, *c0;  // null states: zeros
  void *y, *hn, *cn;        // null states: not wanted
  const void* weights;
  double* reserve;  // null: inference
};
void run_forward(const Layers& layers, const ForwardPass& pass);

struct DataGradient {
  const void *x, *h0, *c0, *y;
  const void *d_y, *d_hn, *d_cn;  // null: zeros
  void *d_x, *d_h0, *d_c0;        // null states: not wanted
  const void* weights;
  double* reserve;  // gets the gradients of gates
};
void run_data_gradient(const Layers& layers, const DataGradient& pass);

struct WeightGradient {
  const void *x, *h0, *y;
  void* d_weights;  // is added to
  const double* reserve;
};
void run_weight_gradient(const Layers& layers, const WeightGradient& pass);

}  // namespace unroll::shim
