// SPDX-License-Identifier: Apache-2.0
// Shape rules of the composites. Letters as in ops.h.
#include "core/ir/shape_rules.h"

namespace unroll {

namespace {

// rnn, gru, lstm: inputs x, h0, [c0], [lengths], [key], parameters.
std::vector<Type> recurrent_rule(const ShapeQuery& q) {
  const bool lstm = q.op == Op::lstm;
  const std::int64_t gates = lstm ? 4 : q.op == Op::gru ? 3 : 1;
  q.require_float(0);
  const DType dtype = q.in(0).dtype;
  q.require(q.shape(0).rank() == 3, "x must be [T,B,I]; got " + q.shape(0).text());
  const std::int64_t hidden = q.integer("hidden"), layers = q.integer("layers");
  const std::int64_t projection = lstm ? q.integer("projection") : 0;
  q.require(hidden > 0 && hidden <= Shape::k_max_dimension, "hidden must be positive and at most 2^40");
  q.require(layers > 0 && layers <= Shape::k_max_dimension, "layers must be positive and at most 2^40");
  q.require(projection >= 0 && projection < hidden,
            "projection must be below hidden; got " + std::to_string(projection));
  const std::int64_t directions = q.flag("bidirectional") ? 2 : 1;
  const std::int64_t batch = q.shape(0)[1], width = projection > 0 ? projection : hidden;
  std::size_t at = 1;
  const auto next = [&](std::string_view name, const Shape& shape, DType wanted) {
    if (at >= q.inputs.size()) q.fail("input '" + std::string(name) + "' is missing");
    q.require_dtype(at, wanted, name);
    q.require_shape(at, shape, name);
    ++at;
  };
  const Shape h_shape{layers * directions, batch, width}, c_shape{layers * directions, batch, hidden};
  next("h0", h_shape, dtype);
  if (lstm) next("c0", c_shape, dtype);
  if (q.flag("lengths")) next("lengths", Shape{batch}, DType::i32);
  const double rate = q.attributes.get<double>("dropout");
  q.require(rate >= 0 && rate < 1, "dropout must be in [0,1)");
  if (rate > 0) next("key", Shape{3}, DType::i32);
  for (std::int64_t l = 0; l < layers; ++l)
    for (std::int64_t d = 0; d < directions; ++d) {
      next("weight_ih", Shape{gates * hidden, l == 0 ? q.shape(0)[2] : directions * width}, dtype);
      next("weight_hh", Shape{gates * hidden, width}, dtype);
      if (q.flag("bias")) {
        next("bias_ih", Shape{gates * hidden}, dtype);
        next("bias_hh", Shape{gates * hidden}, dtype);
      }
      if (projection > 0) next("weight_hr", Shape{projection, hidden}, dtype);
      if (lstm && q.flag("peephole"))
        for (const char* name : {"weight_ci", "weight_cf", "weight_co"}) next(name, Shape{hidden}, dtype);
    }
  q.require(at == q.inputs.size(), "got " + std::to_string(q.inputs.size()) + " inputs, takes " + std::to_string(at));
  std::vector<Type> outputs{{dtype, Shape{q.shape(0)[0], batch, directions * width}}, {dtype, h_shape}};
  if (lstm) outputs.push_back({dtype, c_shape});
  return outputs;
}

std::vector<Type> rows_rule(const ShapeQuery& q) {
  q.require_float(0);
  q.require(q.shape(0).rank() >= 1 && q.shape(0)[q.shape(0).rank() - 1] > 0,
            "needs a last axis with elements; got " + q.shape(0).text());
  return {q.in(0)};
}
std::vector<Type> layer_norm_rule(const ShapeQuery& q) {
  q.require_same_dtype();
  rows_rule(q);
  const Shape width{q.shape(0)[q.shape(0).rank() - 1]};
  q.require_shape(1, width, "weight");
  q.require_shape(2, width, "bias");
  return {q.in(0)};
}
std::vector<Type> dropout_rule(const ShapeQuery& q) {
  q.require_float(0);
  q.require_dtype(1, DType::i32, "key");
  q.require_shape(1, Shape{3}, "key");
  if (q.inputs.size() > 2) {
    q.require_dtype(2, DType::i32, "step");
    q.require_shape(2, Shape{}, "step");
  }
  const double rate = q.attributes.get<double>("rate");
  q.require(rate >= 0 && rate < 1, "rate must be in [0,1)");
  q.integer("site");
  return {q.in(0)};
}
std::vector<Type> embedding_rule(const ShapeQuery& q) {
  q.require_float(0);
  q.require(q.shape(0).rank() == 2, "the table must be [V,E]; got " + q.shape(0).text());
  q.require_dtype(1, DType::i32, "ids");
  return {{q.in(0).dtype, q.shape(1).inserted(q.shape(1).rank(), q.shape(0)[1])}};
}

// attention; outputs y [B,Q,E] and weights [B,Q,S]
std::vector<Type> attention_outputs(const ShapeQuery& q, std::int64_t width, std::size_t mask) {
  const DType dtype = q.in(0).dtype;
  const Shape &queries = q.shape(0), &keys = q.shape(1), &values = q.shape(2);
  q.require(
      keys[0] == queries[0] && values[0] == queries[0] && keys[1] == values[1],
      "q [B,Q,D], k [B,S,D], v [B,S,E] must agree; got " + queries.text() + ", " + keys.text() + ", " + values.text());
  const Shape weights{queries[0], queries[1], keys[1]};
  if (q.inputs.size() > mask) {
    q.require_dtype(mask, DType::b8, "mask");
    q.require(broadcast_shapes(q.shape(mask), weights, op_info(q.op).name) == weights,
              "mask must broadcast to " + weights.text());
  }
  return {{dtype, Shape{queries[0], queries[1], width}}, {dtype, weights}};
}
void require_three(const ShapeQuery& q, std::size_t floats) {
  for (std::size_t i = 0; i < floats; ++i) {
    q.require_float(i);
    q.require_dtype(i, q.in(0).dtype, "an operand");
    q.require(i > 2 || q.shape(i).rank() == 3, "q, k and v must have rank 3; got " + q.shape(i).text());
  }
}
std::vector<Type> dot_attention_rule(const ShapeQuery& q) {
  require_three(q, 3);
  q.require(q.shape(0)[2] == q.shape(1)[2],
            "q and k must have one width; got " + q.shape(0).text() + " and " + q.shape(1).text());
  q.attributes.get<double>("scale");
  return attention_outputs(q, q.shape(2)[2], 3);
}
std::vector<Type> additive_attention_rule(const ShapeQuery& q) {
  require_three(q, 6);
  q.require(q.shape(5).rank() == 1, "v_a must be [A]; got " + q.shape(5).text());
  q.require_shape(3, Shape{q.shape(5)[0], q.shape(0)[2]}, "w_q");
  q.require_shape(4, Shape{q.shape(5)[0], q.shape(1)[2]}, "w_k");
  return attention_outputs(q, q.shape(2)[2], 6);
}
std::vector<Type> multi_head_attention_rule(const ShapeQuery& q) {
  require_three(q, 7);
  const std::int64_t width = q.shape(0)[2], heads = q.integer("heads");
  q.require(heads > 0 && width % heads == 0,
            "width " + std::to_string(width) + " must be a multiple of heads " + std::to_string(heads));
  q.require(q.shape(1)[2] == width && q.shape(2)[2] == width, "q, k and v must have one width");
  q.require_shape(3, Shape{3 * width, width}, "in_weight");
  q.require_shape(4, Shape{3 * width}, "in_bias");
  q.require_shape(5, Shape{width, width}, "out_weight");
  q.require_shape(6, Shape{width}, "out_bias");
  return attention_outputs(q, width, 7);
}

// losses
std::vector<Type> cross_entropy_rule(const ShapeQuery& q) {
  rows_rule(q);
  q.require_dtype(1, DType::i32, "labels");
  q.require_shape(1, q.shape(0).removed(q.shape(0).rank() - 1), "labels");
  return {{q.in(0).dtype, q.shape(1)}};
}
std::vector<Type> pair_rule(const ShapeQuery& q) {
  q.require_same_dtype();
  q.require_float(0);
  q.require_shape(1, q.shape(0), "target");
  if (q.op == Op::huber) q.require(q.attributes.get<double>("delta") > 0, "delta must be positive");
  return {q.in(0)};
}

// Optimisers: inputs p, g, [slots], lr, [update]; outputs p', slots'. `slots` are the input indices of the slots.
std::vector<Type> update_rule(const ShapeQuery& q, std::initializer_list<std::size_t> slots, std::size_t lr) {
  q.require_float(0);
  q.require_dtype(1, q.in(0).dtype, "gradient");
  q.require_shape(1, q.shape(0), "gradient");
  q.require_dtype(lr, q.in(0).dtype, "lr");
  q.require_shape(lr, Shape{}, "lr");
  std::vector<Type> outputs{q.in(0)};
  for (const std::size_t slot : slots) {
    if (slot >= q.inputs.size()) continue;
    q.require_dtype(slot, q.in(0).dtype, "a slot");
    q.require_shape(slot, q.shape(0), "a slot");
    outputs.push_back(q.in(slot));
  }
  return outputs;
}
std::vector<Type> sgd_rule(const ShapeQuery& q) { return update_rule(q, {3}, 2); }           // p, g, lr, [m]
std::vector<Type> rmsprop_rule(const ShapeQuery& q) { return update_rule(q, {2, 4}, 3); }    // p, g, v, lr, [m]
std::vector<Type> adagrad_rule(const ShapeQuery& q) { return update_rule(q, {2}, 3); }       // p, g, s, lr
std::vector<Type> lion_rule(const ShapeQuery& q) { return update_rule(q, {2}, 3); }          // p, g, m, lr
std::vector<Type> adam_rule(const ShapeQuery& q) {                                           // p, g, m, v, lr, update
  q.require_dtype(5, DType::i32, "update");
  q.require_shape(5, Shape{}, "update");
  return update_rule(q, {2, 3}, 4);
}

constexpr ShapeRow k_rows[] = {
    {Op::rnn, recurrent_rule},
    {Op::gru, recurrent_rule},
    {Op::lstm, recurrent_rule},
    {Op::softmax, rows_rule},
    {Op::log_softmax, rows_rule},
    {Op::layer_norm, layer_norm_rule},
    {Op::dropout, dropout_rule},
    {Op::embedding, embedding_rule},
    {Op::dot_attention, dot_attention_rule},
    {Op::additive_attention, additive_attention_rule},
    {Op::multi_head_attention, multi_head_attention_rule},
    {Op::softmax_cross_entropy, cross_entropy_rule},
    {Op::mse, pair_rule},
    {Op::mae, pair_rule},
    {Op::huber, pair_rule},
    {Op::bce, pair_rule},
    {Op::sgd, sgd_rule},
    {Op::adam, adam_rule},
    {Op::rmsprop, rmsprop_rule},
    {Op::adagrad, adagrad_rule},
    {Op::lion, lion_rule},
};

}  // namespace

std::span<const ShapeRow> composite_shape_rules() { return k_rows; }

}  // namespace unroll
