// SPDX-License-Identifier: Apache-2.0
// Bodies of the layers that act on one position at a time.
#include <cstdint>

#include "core/ir/bodies.h"
#include "unroll/ops.h"

namespace unroll::bodies {

namespace {

Ints last_axis(Value x) { return {x.rank() - 1}; }

// x - max(x) over the last axis: the softmax does not change and exp cannot overflow. The shift is a constant to the
// gradient because the result does not depend on it.
Value shifted(Value x) { return x - stop_gradient(reduce_max(x, last_axis(x), true)); }

}  // namespace

// y_i = e^(x_i - m) / sum_j e^(x_j - m),  m = max_j x_j
Values softmax(Inputs in, const Attributes&) {
  const Value e = exp(shifted(in[0]));
  return {e / reduce_sum(e, last_axis(e), true)};
}

// y_i = (x_i - m) - log sum_j e^(x_j - m)
Values log_softmax(Inputs in, const Attributes&) {
  const Value s = shifted(in[0]);
  return {s - log(reduce_sum(exp(s), last_axis(s), true))};
}

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, over the last axis, with the variance over N
// (Ba et al. 2016, arXiv:1607.06450).
Values layer_norm(Inputs in, const Attributes& attributes) {
  const Value x = in[0], weight = in[1], bias = in[2];
  const double n = static_cast<double>(x.shape()[x.rank() - 1]);
  const Value centred = x - reduce_sum(x, last_axis(x), true) / n;
  const Value variance = reduce_sum(square(centred), last_axis(x), true) / n;
  return {centred * (1 / sqrt(variance + attributes.get<double>("epsilon"))) * weight + bias};
}

// y = 0 where u < rate, else x / (1 - rate), with u uniform in [0,1) (Srivastava et al. 2014).
Values dropout(Inputs in, const Attributes& attributes) {
  const Value x = in[0], key = in[1], step = in.size() > 2 ? in[2] : Value();
  const double rate = attributes.get<double>("rate");
  const Value u = random_uniform(key, x.shape(), attributes.get<std::int64_t>("site"), step);
  const double scale = rate < 1 ? 1 / (1 - rate) : 0;
  return {select(less(u, scalar_like(u, rate)), scalar_like(x, 0), x * scale)};
}

// y = table[ids]
Values embedding(Inputs in, const Attributes&) { return {gather(in[0], in[1])}; }

}  // namespace unroll::bodies
