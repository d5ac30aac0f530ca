// SPDX-License-Identifier: Apache-2.0
// The losses: one value per row (cross-entropy) or per element. The caller reduces them.
#include <cstdint>

#include "core/ir/append.h"
#include "core/ir/ops/composite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

void require_logits(const ShapeQuery& q) {
  q.require_float(0);
  const int rank = q.shape(0).rank();
  q.require(rank >= 1 && q.shape(0)[rank - 1] > 0, "needs a last axis with elements; got " + q.shape(0).text());
  q.require_dtype(1, DType::i32, "labels");
  q.require_shape(1, q.shape(0).removed(rank - 1), "labels");
}
void require_pair(const ShapeQuery& q) {
  q.require_same_dtype();
  q.require_float(0);
  q.require_shape(1, q.shape(0), "target");
}
void require_pinball(const ShapeQuery& q) {
  require_pair(q);
  const double quantile = q.attributes.get<double>("quantile");
  q.require(quantile > 0 && quantile < 1, "quantile must be in (0,1)");
}
void require_huber(const ShapeQuery& q) {
  require_pair(q);
  q.require(q.attributes.get<double>("delta") > 0, "delta must be positive");
}

// loss = log sum_j e^(x_j - m) - (x_label - m),  m = max_j x_j. The label is picked by comparing with an index along V,
// so the gradient is d_logits = (softmax - onehot) * d_loss in elementwise ops only: no scatter, no second reduction.
// A row whose label is outside [0, V) has loss 0 and no gradient. Its logits are not read: they may be NaN.
Values softmax_cross_entropy_body(Inputs in, const Attributes&) {
  const Value labels = in[1];  // i32 [...]
  const int last = in[0].rank() - 1;
  const double classes = static_cast<double>(in[0].shape()[last]);
  const Value is_row =
      logical_and(less_equal(scalar_like(labels, 0), labels), less(labels, scalar_like(labels, classes)));
  const Value logits = zero_unless(reshape(is_row, is_row.shape().inserted(last, 1)), in[0]);  // [..., V]
  const Value shifted = logits - stop_gradient(reduce_max(logits, {last}, true));
  const Value is_label = equal(iota(logits.graph(), logits.shape(), last),
                               reshape(labels, labels.shape().inserted(last, 1)));  // b8 [..., V]
  const Value picked = reduce_sum(zero_unless(is_label, shifted), {last});
  const Value loss = log(reduce_sum(exp(shifted), {last})) - picked;
  return {zero_unless(is_row, loss)};
}

// (prediction - target)^2
Values mse_body(Inputs in, const Attributes&) { return {square(in[0] - in[1])}; }

// |prediction - target|
Values mae_body(Inputs in, const Attributes&) { return {abs(in[0] - in[1])}; }

// With e = prediction - target: e^2 / 2 where |e| <= delta, else delta * (|e| - delta / 2) (Huber 1964).
Values huber_body(Inputs in, const Attributes& attributes) {
  const double delta = attributes.get<double>("delta");
  const Value e = in[0] - in[1];
  const Value size = abs(e);
  return {select(less_equal(size, scalar_like(size, delta)), square(e) * 0.5, (size - delta / 2) * delta)};
}

// With e = target - prediction: q e where e > 0, else (q - 1) e. Its mean is least at the quantile q of the targets
// (Koenker & Bassett 1978).
Values pinball_body(Inputs in, const Attributes& attributes) {
  const double quantile = attributes.get<double>("quantile");
  const Value e = in[1] - in[0];
  return {maximum(e * quantile, e * (quantile - 1))};
}

// -t log s(z) - (1 - t) log(1 - s(z)) with s the logistic function, written so that nothing overflows and large terms
// cancel exactly: max(z, 0) - z t + log(1 + e^-|z|), where max(z, 0) = (z + |z|) / 2 has the right slope 1/2 at z = 0.
Values bce_body(Inputs in, const Attributes&) {
  const Value z = in[0], t = in[1];
  const Value size = abs(z);
  return {z * (0.5 - t) + size * 0.5 + log1p(exp(-size))};
}

}  // namespace

std::span<const Composite> loss_composites() {
  static const Composite rows[] = {
      {Op::softmax_cross_entropy, {}, require_logits, softmax_cross_entropy_body},
      {Op::mse, {}, require_pair, mse_body},
      {Op::mae, {}, require_pair, mae_body},
      {Op::huber, {{"delta", AttributeKind::number}}, require_huber, huber_body},
      {Op::pinball, {{"quantile", AttributeKind::number}}, require_pinball, pinball_body},
      {Op::bce, {}, require_pair, bce_body},
  };
  return rows;
}

Value softmax_cross_entropy(Value logits, Value labels) { return append(Op::softmax_cross_entropy, {logits, labels}); }
Value mse(Value prediction, Value target) { return append(Op::mse, {prediction, target}); }
Value mae(Value prediction, Value target) { return append(Op::mae, {prediction, target}); }
Value huber(Value prediction, Value target, double delta) {
  return append(Op::huber, {prediction, target}, {{"delta", delta}});
}
Value pinball(Value prediction, Value target, double quantile) {
  return append(Op::pinball, {prediction, target}, {{"quantile", quantile}});
}
Value bce(Value logits, Value target) { return append(Op::bce, {logits, target}); }

}  // namespace unroll
