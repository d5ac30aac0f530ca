// SPDX-License-Identifier: Apache-2.0
// The layers that act on one position at a time.
#include <cstdint>

#include "core/ir/append.h"
#include "core/ir/ops/composite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

void require_rows(const ShapeQuery& q) {
  q.require_float(0);
  q.require(q.shape(0).rank() >= 1 && q.shape(0)[q.shape(0).rank() - 1] > 0,
            "needs a last axis with elements; got " + q.shape(0).text());
}
void require_layer_norm(const ShapeQuery& q) {
  q.require_same_dtype();
  require_rows(q);
  const Shape width{q.shape(0)[q.shape(0).rank() - 1]};
  q.require_shape(1, width, "weight");
  q.require_shape(2, width, "bias");
}
void require_dropout(const ShapeQuery& q) {
  q.require_float(0);
  q.require_dtype(1, DType::i32, "key");
  q.require_shape(1, Shape{3}, "key");
  if (q.inputs.size() > 2) {
    q.require_dtype(2, DType::i32, "step");
    q.require_shape(2, Shape{}, "step");
  }
  const double rate = q.attributes.get<double>("rate");
  q.require(rate >= 0 && rate < 1, "rate must be in [0,1)");
}
void require_embedding(const ShapeQuery& q) {
  q.require_float(0);
  q.require(q.shape(0).rank() == 2, "the table must be [V,E]; got " + q.shape(0).text());
  q.require_dtype(1, DType::i32, "ids");
}

Ints last_axis(Value x) { return {x.rank() - 1}; }

// x - max(x) over the last axis: the softmax does not change and exp cannot overflow. The shift is a constant to the
// gradient because the result does not depend on it.
Value shifted(Value x) { return x - stop_gradient(reduce_max(x, last_axis(x), true)); }

// y_i = e^(x_i - m) / sum_j e^(x_j - m),  m = max_j x_j
Values softmax_body(Inputs in, const Attributes&) {
  const Value e = exp(shifted(in[0]));
  return {e / reduce_sum(e, last_axis(e), true)};
}

// y_i = (x_i - m) - log sum_j e^(x_j - m)
Values log_softmax_body(Inputs in, const Attributes&) {
  const Value s = shifted(in[0]);
  return {s - log(reduce_sum(exp(s), last_axis(s), true))};
}

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, over the last axis, with the variance over N
// (Ba et al. 2016, arXiv:1607.06450).
Values layer_norm_body(Inputs in, const Attributes& attributes) {
  const Value x = in[0], weight = in[1], bias = in[2];
  const double n = static_cast<double>(x.shape()[x.rank() - 1]);
  const Value centered = x - reduce_sum(x, last_axis(x), true) / n;
  const Value variance = reduce_sum(square(centered), last_axis(x), true) / n;
  return {centered * (1 / sqrt(variance + attributes.get<double>("epsilon"))) * weight + bias};
}

// y = 0 where u < rate, else x / (1 - rate), with u uniform in [0,1) (Srivastava et al. 2014).
Values dropout_body(Inputs in, const Attributes& attributes) {
  const Value x = in[0], key = in[1], step = in.size() > 2 ? in[2] : Value();
  const double rate = attributes.get<double>("rate");
  const Value u = random_uniform(key, x.shape(), attributes.get<std::int64_t>("rng_stream"), step);
  const double scale = rate < 1 ? 1 / (1 - rate) : 0;
  return {select(less(u, scalar_like(u, rate)), scalar_like(x, 0), x * scale)};
}

// y = table[ids]
Values embedding_body(Inputs in, const Attributes&) { return {gather(in[0], in[1])}; }

}  // namespace

std::span<const Composite> layer_composites() {
  using K = AttributeKind;
  static const Composite rows[] = {
      {Op::softmax, {}, require_rows, softmax_body},
      {Op::log_softmax, {}, require_rows, log_softmax_body},
      {Op::layer_norm, {{"epsilon", K::number}}, require_layer_norm, layer_norm_body},
      {Op::dropout, {{"rate", K::number}, {"rng_stream", K::integer}}, require_dropout, dropout_body},
      {Op::embedding, {}, require_embedding, embedding_body},
  };
  return rows;
}

Value softmax(Value x) { return append(Op::softmax, {x}); }
Value log_softmax(Value x) { return append(Op::log_softmax, {x}); }
Value layer_norm(Value x, Value weight, Value bias, double epsilon) {
  return append(Op::layer_norm, {x, weight, bias}, {{"epsilon", epsilon}});
}
Value dropout(Value x, Value key, double rate, std::int64_t rng_stream, Value step) {
  const Attributes attributes{{"rate", rate}, {"rng_stream", rng_stream}};
  return step ? append(Op::dropout, {x, key, step}, attributes) : append(Op::dropout, {x, key}, attributes);
}
Value embedding(Value table, Value ids) { return append(Op::embedding, {table, ids}); }

}  // namespace unroll
