// SPDX-License-Identifier: Apache-2.0
// Attention. B batch, Q queries, S source positions, E width, A width of the additive score.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "core/ir/append.h"
#include "core/ir/ops/composite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

void require_mask(const ShapeQuery& q, std::size_t mask) {
  const Shape &queries = q.shape(0), &keys = q.shape(1), &values = q.shape(2);
  q.require(
      keys[0] == queries[0] && values[0] == queries[0] && keys[1] == values[1],
      "q [B,Q,D], k [B,S,D], v [B,S,E] must agree; got " + queries.text() + ", " + keys.text() + ", " + values.text());
  if (q.inputs.size() > mask) {
    const Shape weights{queries[0], queries[1], keys[1]};
    q.require_dtype(mask, DType::b8, "mask");
    q.require(broadcast_shapes(q.shape(mask), weights, op_info(q.op).name) == weights,
              "mask must broadcast to " + weights.text());
  }
}
void require_three(const ShapeQuery& q, std::size_t floats) {
  for (std::size_t i = 0; i < floats; ++i) {
    q.require_float(i);
    q.require_dtype(i, q.in(0).dtype, "an operand");
    q.require(i > 2 || q.shape(i).rank() == 3, "q, k and v must have rank 3; got " + q.shape(i).text());
  }
}
void require_dot_attention(const ShapeQuery& q) {
  require_three(q, 3);
  q.require(q.shape(0)[2] == q.shape(1)[2],
            "q and k must have one width; got " + q.shape(0).text() + " and " + q.shape(1).text());
  require_mask(q, 3);
}
void require_additive_attention(const ShapeQuery& q) {
  require_three(q, 6);
  q.require(q.shape(5).rank() == 1, "v_a must be [A]; got " + q.shape(5).text());
  q.require_shape(3, Shape{q.shape(5)[0], q.shape(0)[2]}, "w_q");
  q.require_shape(4, Shape{q.shape(5)[0], q.shape(1)[2]}, "w_k");
  require_mask(q, 6);
}
void require_multi_head_attention(const ShapeQuery& q) {
  require_three(q, 7);
  const std::int64_t width = q.shape(0)[2], heads = q.integer("heads");
  q.require(heads > 0 && width % heads == 0,
            "width " + std::to_string(width) + " must be a multiple of heads " + std::to_string(heads));
  q.require(q.shape(1)[2] == width && q.shape(2)[2] == width, "q, k and v must have one width");
  q.require_shape(3, Shape{3 * width, width}, "in_weight");
  q.require_shape(4, Shape{3 * width}, "in_bias");
  q.require_shape(5, Shape{width, width}, "out_weight");
  q.require_shape(6, Shape{width}, "out_bias");
  require_mask(q, 7);
}

// The mask as one of the rank of the scores [...,Q,S], whose heads share it.
Value mask_like(Value mask, int rank) {
  Shape shape = mask.shape();
  while (shape.rank() < 3) shape = shape.inserted(0, 1);
  while (shape.rank() < rank) shape = shape.inserted(1, 1);
  return reshape(mask, shape);
}
bool differs_by_query(Value mask) { return mask && mask.shape()[mask.rank() - 2] > 1; }

// True where a flag along the axis is set.
Value any(Value flag, int axis) {
  if (flag.shape()[axis] == 1) return flag;
  const Value n = reduce_sum(cast(flag, DType::f32), {axis}, true);
  return less(scalar_like(n, 0), n);
}
Value not_finite(Value x) { return logical_not(is_finite(x)); }

// q, k and v [B,N,D] with zeros in the queries that see nothing and in the positions that nothing sees: zero times NaN
// is NaN, in products and in their gradients.
std::array<Value, 3> seen_operands(Inputs in, Value mask) {
  if (!mask) return {in[0], in[1], in[2]};
  const Value m = mask_like(mask, 3), query = any(m, 2), position = transpose(any(m, 1), {0, 2, 1});
  return {zero_unless(query, in[0]), zero_unless(position, in[1]), zero_unless(position, in[2])};
}

// q k^T. If queries see different positions, a score that is not finite becomes NaN for the queries that see it.
Value dot_scores(Value q, Value k, Value mask) {
  if (!differs_by_query(mask)) return matmul(q, k, {.a = false, .b = true});
  const int rank = k.rank();
  const Value scores = matmul(q, zero_unless(is_finite(k), k), {.a = false, .b = true});
  const Value broken = any(not_finite(k), rank - 1);  // [...,S,1]
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 2], order.back());
  return select(transpose(broken, order), scalar_like(scores, std::nan("")), scores);
}

// weights v, in the same way.
Value weighted(Value weights, Value v, Value mask) {
  if (!differs_by_query(mask)) return matmul(weights, v);
  const Value y = matmul(weights, zero_unless(is_finite(v), v));
  const Value seen = cast(broadcast(mask, weights.shape()), v.dtype());
  const Value n_broken = matmul(seen, cast(not_finite(v), v.dtype()));
  return select(less(scalar_like(n_broken, 0), n_broken), scalar_like(y, std::nan("")), y);
}

// Softmax over the last axis among the positions where mask is set; a row with none gives zeros, and neither the value
// nor the gradient of a masked position can become infinite.
Value attention_weights(Value scores, Value mask) {
  if (!mask) return softmax(scores);
  const Ints last{scores.rank() - 1};
  const Value zero = scalar_like(scores, 0);
  const Value lowest = scalar_like(scores, -std::numeric_limits<double>::infinity());
  const Value top = stop_gradient(reduce_max(select(mask, scores, lowest), last, true));
  const Value e = select(mask, exp(select(mask, scores - top, zero)), zero);
  const Value total = reduce_sum(e, last, true);  // at least 1, or 0 in a row with nothing to attend
  return e / select(less(total, scalar_like(total, 0.5)), scalar_like(total, 1), total);
}

// y = softmax(scale q k^T) v (Luong et al. 2015; scaled: Vaswani et al. 2017): in q, k, v, [mask]; out y, weights.
Values dot_attention_body(Inputs in, const Attributes& attributes) {
  const Value mask = in.size() > 3 ? mask_like(in[3], 3) : Value();
  const auto [q, k, v] = seen_operands(in, mask);
  const double width = static_cast<double>(q.shape()[q.rank() - 1]);
  const double given = attributes.get<double>("scale");
  const double scale = given == 0 ? 1 / std::sqrt(width) : given;
  const Value weights = attention_weights(dot_scores(q * scale, k, mask), mask);  // [B, Q, S]
  return {weighted(weights, v, mask), weights};
}

// score(q, k) = v_a . tanh(W_q q + W_k k) (Bahdanau et al. 2015): in q, k, v, w_q, w_k, v_a, [mask]; out y, weights.
Values additive_attention_body(Inputs in, const Attributes&) {
  const Value v_a = in[5], mask = in.size() > 6 ? mask_like(in[6], 3) : Value();
  const auto [q_in, k_in, v] = seen_operands(in, mask);
  const Value q = linear(q_in, in[3]);  // [B, Q, A]
  const Value k = linear(k_in, in[4]);  // [B, S, A]
  Value joined = reshape(q, q.shape().inserted(2, 1)) + reshape(k, k.shape().inserted(1, 1));  // [B, Q, S, A]
  if (differs_by_query(mask)) joined = zero_unless(reshape(mask, mask.shape().inserted(3, 1)), joined);
  const Value scores = reduce_sum(tanh(joined) * v_a, {3});  // [B, Q, S]
  const Value weights = attention_weights(scores, mask);
  return {weighted(weights, v, mask), weights};
}

// Vaswani et al. 2017 with the packed parameters of torch.nn.MultiheadAttention: in q, k, v, in_weight [3E, E],
// in_bias [3E], out_weight [E, E], out_bias [E], [mask]; out y [B, Q, E] and the weights' mean over heads [B, Q, S].
Values multi_head_attention_body(Inputs in, const Attributes& attributes) {
  const Value in_weight = in[3], in_bias = in[4];
  const std::int64_t heads = attributes.get<std::int64_t>("heads");
  const std::int64_t width = in_weight.shape()[1], head_width = width / heads;
  const auto project = [&](Value x, int part) {  // [B, N, E] -> [B, heads, N, E / heads]
    const Value y = linear(x, slice(in_weight, 0, part * width, width), slice(in_bias, 0, part * width, width));
    return transpose(reshape(y, {y.shape()[0], y.shape()[1], heads, head_width}), {0, 2, 1, 3});
  };
  const double scale = 1 / std::sqrt(static_cast<double>(head_width));
  const auto seen = seen_operands(in, in.size() > 7 ? in[7] : Value());
  const Value q = project(seen[0], 0) * scale, k = project(seen[1], 1), v = project(seen[2], 2);
  const Value mask = in.size() > 7 ? mask_like(in[7], 4) : Value();
  const Value weights = attention_weights(dot_scores(q, k, mask), mask);  // [B, heads, Q, S]
  const Value y = transpose(weighted(weights, v, mask), {0, 2, 1, 3});    // [B, Q, heads, E / heads]
  const Value joined = reshape(y, {y.shape()[0], y.shape()[1], width});
  return {linear(joined, in[5], in[6]), reduce_sum(weights, {1}) / static_cast<double>(heads)};
}

AttentionResult attend(Op op, std::vector<Value> inputs, Value mask, Attributes attributes) {
  require_first(op, inputs[0]);
  if (mask) inputs.push_back(mask);
  const auto outputs = inputs[0].graph().append(op, inputs, std::move(attributes));
  return {outputs[0], outputs[1]};
}

}  // namespace

std::span<const Composite> attention_composites() {
  using K = AttributeKind;
  static const Composite rows[] = {
      {Op::dot_attention, {{"scale", K::number}}, require_dot_attention, dot_attention_body},
      {Op::additive_attention, {}, require_additive_attention, additive_attention_body},
      {Op::multi_head_attention, {{"heads", K::integer}}, require_multi_head_attention, multi_head_attention_body},
  };
  return rows;
}

AttentionResult dot_attention(Value q, Value k, Value v, Value mask, double scale) {
  if (scale == 0 && q && q.rank() > 0)
    scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q.shape()[q.rank() - 1], 1)));
  return attend(Op::dot_attention, {q, k, v}, mask, {{"scale", scale}});
}
AttentionResult additive_attention(Value q, Value k, Value v, Value w_q, Value w_k, Value v_a, Value mask) {
  return attend(Op::additive_attention, {q, k, v, w_q, w_k, v_a}, mask, {});
}
AttentionResult multi_head_attention(Value q, Value k, Value v, Value in_weight, Value in_bias, Value out_weight,
                                     Value out_bias, int heads, Value mask) {
  return attend(Op::multi_head_attention, {q, k, v, in_weight, in_bias, out_weight, out_bias}, mask,
                {{"heads", static_cast<std::int64_t>(heads)}});
}

}  // namespace unroll
