// SPDX-License-Identifier: Apache-2.0
// Normalization layers for inference. Variances are computed in two passes, like those of layer_norm.
#include <cmath>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

// [C] -> [1,C,1,...] for x [N,C,...]
Value per_channel(Call& call, Value v, Value x) {
  Ints dims(x.rank(), 1);
  dims[1] = x.shape()[1];
  if (v.shape() != Shape{dims[1]})
    call.refuse("a parameter is " + v.shape().text() + ", not one value per channel of " + x.shape().text());
  return reshape(v, Shape(dims));
}
Value normalized_rows(Value x, double epsilon) {
  const Value difference = sub(x, mean(x, -1, true));
  return div(difference, sqrt(mean(square(difference), -1, true) + epsilon));
}
void require_channels(Call& call, Value x) {
  if (x.rank() < 2) call.refuse("x is " + x.shape().text() + "; it needs a batch and a channel axis");
}

std::vector<Value> batch_normalization(Call& call) {
  const Value x = call.in(0);
  require_channels(call, x);
  if (call.opset() >= 14 && call.integer("training_mode", 0) != 0)
    call.unsupported("training_mode is not supported");
  if (call.opset() < 9 && call.integer("spatial", 1) == 0) call.unsupported("spatial = 0 is not supported");
  call.number("momentum", 0.9);
  const auto parameter = [&](std::size_t input) { return per_channel(call, call.in(input), x); };
  const Value factor = div(parameter(1), sqrt(parameter(4) + call.number("epsilon", 1e-5)));
  return {add(mul(sub(x, parameter(3)), factor), parameter(2))};
}

std::vector<Value> instance_normalization(Call& call) {
  const Value x = call.in(0);
  require_channels(call, x);
  const std::int64_t inner = Shape(x.shape().dims().subspan(2)).elements();
  const Value flat = reshape(x, {x.shape()[0], x.shape()[1], inner});
  const Value y = reshape(normalized_rows(flat, call.number("epsilon", 1e-5)), x.shape());
  return {add(mul(y, per_channel(call, call.in(1), x)), per_channel(call, call.in(2), x))};
}

// Scale and bias have one value per group before opset 21, one per channel since.
std::vector<Value> group_normalization(Call& call) {
  const Value x = call.in(0);
  require_channels(call, x);
  call.integer("stash_type", 1);
  const std::int64_t groups = call.integer("num_groups", 0), channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0) call.refuse("num_groups does not divide the channels");
  Ints group(x.shape().begin() + 1, x.shape().end());
  group[0] = channels / groups;
  const std::int64_t inner = Shape(group).elements();
  const Value rows = normalized_rows(reshape(x, {x.shape()[0], groups, inner}), call.number("epsilon", 1e-5));
  const auto parameter = [&](std::size_t input) {
    const Value v = call.in(input);
    if (call.opset() >= 21) return per_channel(call, v, x);
    if (v.shape() != Shape{groups}) call.refuse("a parameter is " + v.shape().text() + ", not one value per group");
    const Value all = broadcast(reshape(v, {groups, 1}), {groups, channels / groups});
    return per_channel(call, reshape(all, {channels}), x);
  };
  return {add(mul(reshape(rows, x.shape()), parameter(1)), parameter(2))};
}

// A row of zeros stays zero, as in ONNX Runtime.
std::vector<Value> lp_normalization(Call& call) {
  const Value x = call.in(0);
  const int axis = call.axis(call.integer("axis", -1), x.rank());
  const std::int64_t p = call.integer("p", 2);
  if (p != 1 && p != 2) call.refuse("p must be 1 or 2");
  const Value norm = p == 1 ? sum(abs(x), axis, true) : sqrt(sum(square(x), axis, true));
  const Value zero = scalar_like(x, 0);
  return {select(equal(norm, zero), zero, div(x, norm))};
}

// com.microsoft: input, skip, gamma, beta, bias. Outputs: y, mean, 1 / deviation, the sum that is normalized.
std::vector<Value> skip_layer_normalization(Call& call) {
  const Value x = call.in(0), gamma = call.in(2);
  Value total = add(x, call.in(1));
  if (total.shape() != x.shape()) call.refuse("skip does not broadcast to the input");
  if (call.has(4)) total = add(total, call.in(4));
  const double epsilon = call.number("epsilon", 1e-12);
  const Value beta = call.has(3) ? call.in(3) : filled(call.graph(), gamma.type(), 0);
  const Value average = mean(total, -1, true), difference = sub(total, average);
  const Value inverse = 1.0 / sqrt(mean(square(difference), -1, true) + epsilon);
  return {layer_norm(total, gamma, beta, epsilon), average, inverse, total};
}

std::vector<Value> fused_matmul(Call& call) {
  Value a = call.in(0), b = call.in(1);
  if (a.rank() == 0 || b.rank() == 0) call.refuse("needs at least vectors");
  if (call.integer("transBatchA", 0) != 0 || call.integer("transBatchB", 0) != 0)
    call.unsupported("transBatchA and transBatchB are not supported");
  const auto last_two_swapped = [](Value v) { return v.rank() < 2 ? v : moved_axis(v, v.rank() - 1, v.rank() - 2); };
  if (call.integer("transA", 0) != 0) a = last_two_swapped(a);
  if (call.integer("transB", 0) != 0) b = last_two_swapped(b);
  const double alpha = call.number("alpha", 1);
  const Value y = numpy_matmul(a, b);
  return {alpha == 1 ? y : y * alpha};
}

constexpr OperatorRow k_normalization_rows[] = {
    {"BatchNormalization", 7, batch_normalization},
    {"GroupNormalization", 18, group_normalization},
    {"InstanceNormalization", 6, instance_normalization},
    {"LpNormalization", 1, lp_normalization},
    {"FusedMatMul", 1, fused_matmul, k_microsoft},
    {"SkipLayerNormalization", 1, skip_layer_normalization, k_microsoft},
};

}  // namespace

std::span<const OperatorRow> normalization_rows() { return k_normalization_rows; }

}  // namespace unroll::onnx
