// SPDX-License-Identifier: Apache-2.0
// Random recurrent stacks for the tests of the ONNX writer: cells, layers, directions, lengths and options.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/onnx/export.h"
#include "unroll/support/tensor.h"

namespace unroll::onnx {

struct RandomModel {
  std::string text;  // "gru H=17 L=2 bidirectional lengths"
  Inference inference;
  TensorMap parameters;
  bool with_states = false;
};
RandomModel random_model(std::uint64_t seed);

// Random inputs for these sizes: x in [-1, 1), lengths in [1, T], states in [-0.5, 0.5) when the model has them.
TensorMap random_inputs(const RandomModel& model, std::int64_t steps, std::int64_t batch, std::uint64_t seed);
// What the library computes on the reference backend; states get the suffix ".next".
TensorMap expected_outputs(const RandomModel& model, TensorMap inputs);

// The same in f64 arithmetic, as f64.
TensorMap exact_outputs(const RandomModel& model, TensorMap inputs);

// |a - b| / |b|, with the norm over all elements.
double relative_l2(const Tensor& a, const Tensor& b);

}  // namespace unroll::onnx
