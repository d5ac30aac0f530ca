// SPDX-License-Identifier: Apache-2.0
// Activations of ONNX, as operators and in recurrent nodes (onnx docs/Operators.md).
#pragma once

#include <optional>
#include <string_view>

#include "unroll/ir/ops.h"

namespace unroll::onnx {

struct Activation {
  std::string_view name;
  int parameters;  // it takes alpha, or alpha and beta
  Value (*apply)(Value x, double alpha, double beta);
  // Defaults as an operator. Recurrent nodes must give those of Affine, ScaledTanh and ThresholdedRelu: ONNX leaves
  // them open there, and ONNX Runtime takes 0.
  double alpha = 0, beta = 0;
};
const Activation* find_activation(std::string_view name);  // in any case of letters, as ONNX Runtime takes them

}  // namespace unroll::onnx
