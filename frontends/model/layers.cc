// SPDX-License-Identifier: Apache-2.0
// Layers without time, with PyTorch's parameter names and default initial values.
#include <cmath>

#include "unroll/error.h"
#include "unroll/model.h"

namespace unroll {

namespace {

std::int64_t width_of(Value x, std::string_view layer) {
  if (x.rank() < 1) throw Error(ErrorKind::shape, layer, "x must be [...,I]; got a scalar");
  return x.shape()[x.rank() - 1];
}

}  // namespace

// torch.nn.Linear starts weight and bias from U(-1/sqrt I, 1/sqrt I).
Value linear_layer(Scope scope, Value x, std::int64_t outputs, bool bias) {
  const std::int64_t inputs = width_of(x, "linear_layer");
  const auto start = Initializer::uniform(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(inputs, 1))));
  const Value weight = scope.parameter("weight", {outputs, inputs}, start);
  return linear(x, weight, bias ? scope.parameter("bias", {outputs}, start) : Value());
}

Value embedding_layer(Scope scope, Value ids, std::int64_t n_ids, std::int64_t width) {
  return embedding(scope.parameter("weight", {n_ids, width}, Initializer::normal(1)), ids);
}

Value layer_norm_layer(Scope scope, Value x, double epsilon) {
  const std::int64_t width = width_of(x, "layer_norm_layer");
  const Value weight = scope.parameter("weight", {width}, Initializer::constant(1));
  return layer_norm(x, weight, scope.parameter("bias", {width}, Initializer::zeros()), epsilon);
}

Value dropout_layer(Scope scope, Value x, double rate) {
  if (!(rate >= 0 && rate < 1))
    throw Error(ErrorKind::usage, "dropout", "the rate must be in [0,1); got " + std::to_string(rate));
  if (!scope.training() || rate == 0) return x;
  return dropout(x, scope.key(), rate, scope.next_site());
}

}  // namespace unroll
