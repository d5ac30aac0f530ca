// SPDX-License-Identifier: Apache-2.0
// Bodies of the losses: one value per row (cross-entropy) or per element. The caller reduces them.
#include <cstdint>

#include "core/ir/bodies.h"
#include "unroll/ops.h"

namespace unroll::bodies {

// loss = log sum_j e^(x_j - m) - (x_label - m),  m = max_j x_j. The label is picked by comparing with an index along V,
// so the gradient is d_logits = (softmax - onehot) * d_loss in elementwise ops only: no scatter, no second reduction.
// A label outside [0, V) picks nothing: its row has loss 0 and no gradient.
Values softmax_cross_entropy(Inputs in, const Attributes&) {
  const Value logits = in[0], labels = in[1];  // [..., V], i32 [...]
  const int last = logits.rank() - 1;
  const Value shifted = logits - stop_gradient(reduce_max(logits, {last}, true));
  const Value is_label = equal(iota(logits.graph(), logits.shape(), last),
                               reshape(labels, labels.shape().inserted(last, 1)));  // b8 [..., V]
  const Value picked = reduce_sum(select(is_label, shifted, scalar_like(shifted, 0)), {last});
  const Value loss = log(reduce_sum(exp(shifted), {last})) - picked;
  const Value is_row = logical_and(less_equal(scalar_like(labels, 0), labels),
                                   less(labels, scalar_like(labels, static_cast<double>(logits.shape()[last]))));
  return {select(is_row, loss, scalar_like(loss, 0))};
}

// (prediction - target)^2
Values mse(Inputs in, const Attributes&) { return {square(in[0] - in[1])}; }

// |prediction - target|
Values mae(Inputs in, const Attributes&) { return {abs(in[0] - in[1])}; }

// With e = prediction - target: e^2 / 2 where |e| <= delta, else delta * (|e| - delta / 2) (Huber 1964).
Values huber(Inputs in, const Attributes& attributes) {
  const double delta = attributes.get<double>("delta");
  const Value e = in[0] - in[1];
  const Value size = abs(e);
  return {select(less_equal(size, scalar_like(size, delta)), square(e) * 0.5, (size - delta / 2) * delta)};
}

// -t log s(z) - (1 - t) log(1 - s(z)) with s the logistic function, written so that nothing overflows and large terms
// cancel exactly: max(z, 0) - z t + log(1 + e^-|z|), where max(z, 0) = (z + |z|) / 2 has the right slope 1/2 at z = 0.
Values bce(Inputs in, const Attributes&) {
  const Value z = in[0], t = in[1];
  const Value size = abs(z);
  return {z * (0.5 - t) + size * 0.5 + log1p(exp(-size))};
}

}  // namespace unroll::bodies
