// SPDX-License-Identifier: Apache-2.0
#include "core/model/cells/stack.h"

#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Value joined(const Scope& scope, int layer, Value x, Value y, SkipConnection skip, Value lengths) {
  if (layer == 0) x = without_padding(x, lengths);  // y is zero there, and the sum must be
  if (skip == SkipConnection::residual) return x + y;
  const std::int64_t width = x.shape()[2];
  Scope highway = scope.child("highway");
  const std::string suffix = "_l" + std::to_string(layer);
  const Value weight = highway.parameter("weight" + suffix, {width, width}, Initializer::xavier_uniform());
  const Value gate =
      sigmoid(linear(x, weight, highway.parameter("bias" + suffix, {width}, Initializer::constant(-1))));
  return y * gate + x * (1 - gate);
}

}  // namespace

Value stacked(Scope scope, Value x, const RecurrentModelOptions& options, Value lengths,
              const std::function<Value(int layer, Value x)>& run) {
  bool joins = options.skip == SkipConnection::none;
  for (int layer = 0; layer < options.layers; ++layer) {
    Value y = run(layer, x);
    if (options.skip != SkipConnection::none && y.shape() == x.shape()) {
      y = joined(scope, layer, x, y, options.skip, lengths);
      joins = true;
    }
    x = layer + 1 < options.layers ? dropout_layer(scope, y, options.dropout, options.mask()) : y;
  }
  if (!joins)
    throw Error(ErrorKind::usage, "model", "stack needs a layer whose input and output have the same width",
                "Use two layers or more, or an input as wide as the output");
  return x;
}

}  // namespace unroll
