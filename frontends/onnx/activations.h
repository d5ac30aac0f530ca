// SPDX-License-Identifier: Apache-2.0
// Activations of ONNX, as operators and in recurrent nodes (onnx docs/Operators.md).
#pragma once

#include <optional>
#include <string_view>

#include "unroll/ir/ops.h"

namespace unroll::onnx {

struct Activation {
  std::string_view name;
  int parameters;  // number of parameters: alpha, or alpha and beta
  Value (*apply)(Value x, double alpha, double beta);
  // Defaults of the operator. Recurrent nodes must specify those of Affine, ScaledTanh and ThresholdedRelu: ONNX does
  // not define them there, and ONNX Runtime uses 0.
  double alpha = 0, beta = 0;
};
const Activation* find_activation(std::string_view name);  // ignores case, like ONNX Runtime

}  // namespace unroll::onnx
