// SPDX-License-Identifier: Apache-2.0
// Layers without time, with PyTorch's parameter names and default initialization.
#include <algorithm>
#include <cmath>

#include "core/nn/in_layer.h"
#include "core/support/text/exact_text.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::int64_t width_of(Value x, std::string_view layer) {
  if (x.rank() < 1) throw Error(ErrorKind::shape, layer, "x must be [...,I]; got a scalar");
  return x.shape()[x.rank() - 1];
}

}  // namespace

// torch.nn.Linear initializes weight and bias with U(-1/sqrt I, 1/sqrt I).
Value linear_layer(Scope scope, Value x, std::int64_t outputs, bool bias) {
  return in_layer(scope, [&] {
    const std::int64_t inputs = width_of(x, "linear_layer");
    const auto start = Initializer::uniform(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(inputs, 1))));
    const Value weight = scope.parameter("weight", {outputs, inputs}, start);
    return linear(x, weight, bias ? scope.parameter("bias", {outputs}, start) : Value());
  });
}

// torch.nn.Conv1d initializes weight and bias with U(-1/sqrt F, 1/sqrt F), where F = C / groups * K.
Value conv_layer(Scope scope, Value x, std::int64_t channels, const Ints& kernel, const ConvOptions& options,
                 bool bias) {
  return in_layer(scope, [&] {
    const std::int64_t inputs = width_of(x, "conv_layer");
    if (options.groups < 1 || inputs % options.groups != 0 || channels % options.groups != 0)
      throw Error(ErrorKind::shape, "conv_layer",
                  "groups must divide the channels; got " + std::to_string(options.groups) + " groups of " +
                      std::to_string(inputs) + " -> " + std::to_string(channels));
    Ints shape{channels, inputs / options.groups}, order{0};
    std::int64_t fan_in = shape[1];
    for (std::size_t k = 0; k < kernel.size(); ++k) {
      shape.push_back(kernel[k]);
      order.push_back(static_cast<std::int64_t>(k) + 2);
      fan_in *= kernel[k];
    }
    order.push_back(1);
    const auto start = Initializer::uniform(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(fan_in, 1))));
    const Value weight = transpose(scope.parameter("weight", Shape(shape), start), order);
    return conv(x, weight, bias ? scope.parameter("bias", {channels}, start) : Value(), options);
  });
}

Value embedding_layer(Scope scope, Value ids, std::int64_t n_ids, std::int64_t width, Initializer start) {
  return in_layer(scope, [&] { return embedding(scope.parameter("weight", {n_ids, width}, start), ids); });
}

Value tied_linear_layer(Scope scope, Scope embedding, Value y, std::int64_t outputs) {
  return in_layer(scope, [&] {
    const Shape shape{outputs, width_of(y, "tied_linear_layer")};
    const Value weight = embedding.parameter("weight", shape, Initializer::uniform(k_tied_embedding_start));
    return linear(y, weight, scope.parameter("bias", {outputs}, Initializer::zeros()));
  });
}

Value layer_norm_layer(Scope scope, Value x, double epsilon) {
  return in_layer(scope, [&] {
    const std::int64_t width = width_of(x, "layer_norm_layer");
    const Value weight = scope.parameter("weight", {width}, Initializer::constant(1));
    return layer_norm(x, weight, scope.parameter("bias", {width}, Initializer::zeros()), epsilon);
  });
}

Value dropout_layer(Scope scope, Value x, double rate, DropoutMask mask) {
  if (!(rate >= 0 && rate < 1))
    throw Error(ErrorKind::usage, "dropout", "the rate must be in [0,1); got " + exact_text(rate));
  if (!scope.training() || rate == 0) return x;
  if (mask == DropoutMask::step) return dropout(x, scope.key(), rate, scope.next_rng_stream());
  if (x.rank() < 1) throw Error(ErrorKind::shape, "dropout_layer", "x must be [T,...]; got a scalar");
  return x * dropout(filled(scope.graph(), {x.dtype(), x.shape().with(0, 1)}, 1), scope.key(), rate,
                     scope.next_rng_stream());
}

void activation_penalties(Scope scope, Value y, double activation, double temporal, Value lengths) {
  if (!(activation >= 0 && std::isfinite(activation) && temporal >= 0 && std::isfinite(temporal)))
    throw Error(ErrorKind::usage, "activation_penalties",
                "must not be negative; got " + exact_text(activation) + " and " + exact_text(temporal));
  if (!scope.training()) return;
  const std::int64_t T = y.shape()[0], B = y.shape()[1], P = y.shape()[2];
  y = without_padding(y, lengths);
  // Adds the mean of `total` over the elements at the first `steps` steps of each row (at least one), times `factor`.
  const auto add_mean = [&](Value total, std::int64_t without, double factor) {
    if (!lengths) {
      const auto n = static_cast<double>(std::max<std::int64_t>((T - without) * B * P, 1));
      return scope.add_penalty(total / n * factor, scalar_like(total, n));
    }
    const Value zero = scalar_like(lengths, 0), all = scalar_like(lengths, static_cast<double>(T));
    const Value steps = sum(maximum(minimum(lengths, all) - static_cast<double>(without), zero));
    const Value n = cast(maximum(steps, scalar_like(lengths, 1)), total.dtype()) * static_cast<double>(P);
    scope.add_penalty(total / n * factor, cast(steps, total.dtype()) * static_cast<double>(P));
  };
  if (activation > 0) add_mean(sum(square(y)), 0, activation);
  if (temporal == 0 || T < 2) return;
  Value change = slice(y, 0, 1, T - 1) - slice(y, 0, 0, T - 1);
  if (lengths) {
    const Value next = less(iota(scope.graph(), {T - 1, B, 1}, 0) + 1.0, reshape(lengths, {1, B, 1}));
    change = select(next, change, scalar_like(change, 0));
  }
  add_mean(sum(square(change)), 1, temporal);
}

}  // namespace unroll
