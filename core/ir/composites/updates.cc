// SPDX-License-Identifier: Apache-2.0
// The optimizer updates of one parameter. They equal torch.optim. p parameter, g gradient, lr learning rate
// (a scalar input, so that a schedule needs no new plan), t the update, counted from 1.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/ir/ops/composite.h"
#include "core/support/sum_tree.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

// Checks an optimizer op, whose inputs are the parameter, the gradient, the slots and lr.
void require_update(const ShapeQuery& q, std::initializer_list<std::size_t> slots, std::size_t lr) {
  q.require_float(0);
  q.require_dtype(1, q.in(0).dtype, "gradient");
  q.require_shape(1, q.shape(0), "gradient");
  q.require_dtype(lr, q.in(0).dtype, "lr");
  q.require_shape(lr, Shape{}, "lr");
  for (const std::size_t slot : slots) {
    if (slot >= q.inputs.size()) continue;
    q.require_dtype(slot, q.in(0).dtype, "a slot");
    q.require_shape(slot, q.shape(0), "a slot");
  }
}
void require_sgd(const ShapeQuery& q) { require_update(q, {3}, 2); }
void require_adam(const ShapeQuery& q) {
  q.require_dtype(5, DType::i32, "update");
  q.require_shape(5, Shape{}, "update");
  require_update(q, {2, 3}, 4);
}
void require_rmsprop(const ShapeQuery& q) { require_update(q, {2, 4}, 3); }
void require_one_slot(const ShapeQuery& q) { require_update(q, {2}, 3); }

// L2 regularisation: g + weight_decay * p.
Value decayed(Value g, Value p, const Attributes& attributes) {
  const double weight_decay = attributes.get<double>("weight_decay");
  return weight_decay == 0 ? g : g + p * weight_decay;
}

// 1 - beta^t as -expm1(t log beta): 1 - pow(beta, t) would lose all digits for a small t in f32.
Value bias_correction(double beta, Value t) {
  if (beta == 0) return scalar_like(t, 1);
  return -expm1(t * std::log(beta));
}

// torch.optim.SGD without dampening: in p, g, lr, [m]; out p', [m'].
//   m' = momentum m + g;  p' = p - lr m', or with nesterov p' = p - lr (g + momentum m')
Values sgd_body(Inputs in, const Attributes& attributes) {
  const Value p = in[0], lr = cast(in[2], p.dtype());
  const Value g = decayed(in[1], p, attributes);
  if (in.size() < 4) return {p - lr * g};
  const double momentum = attributes.get<double>("momentum");
  const Value m = in[3] * momentum + g;
  const Value direction = attributes.get_or<bool>("nesterov", false) ? g + m * momentum : m;
  return {p - lr * direction, m};
}

// torch.optim.Adam (Kingma & Ba 2015) and, decoupled, AdamW (Loshchilov & Hutter 2019): in p, g, m, v, lr, t;
// out p', m', v'.
//   m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2
//   p' = p - lr / (1 - beta1^t) * m' / (sqrt(v') / sqrt(1 - beta2^t) + epsilon)
// weight decay: g + weight_decay p before all that, or decoupled p (1 - lr weight_decay).
Values adam_body(Inputs in, const Attributes& attributes) {
  const double beta1 = attributes.get<double>("beta1"), beta2 = attributes.get<double>("beta2");
  const double weight_decay = attributes.get<double>("weight_decay");
  const bool decoupled = attributes.get_or<bool>("decoupled", false);
  const Value lr = cast(in[4], in[0].dtype()), t = cast(in[5], in[0].dtype());
  const Value g = decoupled ? in[1] : decayed(in[1], in[0], attributes);
  const Value p = decoupled && weight_decay != 0 ? in[0] * (1 - lr * weight_decay) : in[0];
  const Value m = in[2] + (g - in[2]) * (1 - beta1);
  const Value v = in[3] * beta2 + square(g) * (1 - beta2);
  const Value step_size = lr / bias_correction(beta1, t);
  const Value denominator = sqrt(v) / sqrt(bias_correction(beta2, t)) + attributes.get<double>("epsilon");
  return {p - step_size * (m / denominator), m, v};
}

// torch.optim.RMSprop, not centered (Tieleman & Hinton 2012): in p, g, v, lr, [m]; out p', v', [m'].
//   v' = alpha v + (1 - alpha) g^2;  u = g / (sqrt(v') + epsilon);  m' = momentum m + u;  p' = p - lr m' (or lr u)
Values rmsprop_body(Inputs in, const Attributes& attributes) {
  const double alpha = attributes.get<double>("alpha");
  const Value p = in[0], lr = cast(in[3], p.dtype());
  const Value g = decayed(in[1], p, attributes);
  const Value v = in[2] * alpha + square(g) * (1 - alpha);
  const Value u = g / (sqrt(v) + attributes.get<double>("epsilon"));
  if (in.size() < 5) return {p - lr * u, v};
  const Value m = in[4] * attributes.get<double>("momentum") + u;
  return {p - lr * m, v, m};
}

// torch.optim.Adagrad without decay of lr (Duchi et al. 2011): in p, g, s, lr; out p', s'.
//   s' = s + g^2;  p' = p - lr g / (sqrt(s') + epsilon)
Values adagrad_body(Inputs in, const Attributes& attributes) {
  const Value p = in[0], lr = cast(in[3], p.dtype());
  const Value g = decayed(in[1], p, attributes);
  const Value s = in[2] + square(g);
  return {p - lr * (g / (sqrt(s) + attributes.get<double>("epsilon"))), s};
}

// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2): in p, g, m, lr; out p', m'.
//   u = sign(beta1 m + (1 - beta1) g);  p' = p (1 - lr weight_decay) - lr u;  m' = beta2 m + (1 - beta2) g
Values lion_body(Inputs in, const Attributes& attributes) {
  const double beta1 = attributes.get<double>("beta1"), beta2 = attributes.get<double>("beta2");
  const double weight_decay = attributes.get<double>("weight_decay");
  const Value lr = cast(in[3], in[0].dtype());
  const Value p = weight_decay == 0 ? in[0] : in[0] * (1 - lr * weight_decay);
  const Value u = sign(in[2] * beta1 + in[1] * (1 - beta1));
  return {p - lr * u, in[2] * beta2 + in[1] * (1 - beta2)};
}

// Blocks in the order of sum_tree.h, [N] each, the last micro-batch not yet added. A rank without micro-batches gives
// zeros, which are not added.
std::vector<PartialSum> own_blocks(const Attributes& attributes) {
  const auto n = [&](const char* name) { return attributes.get<std::int64_t>(name); };
  return partial_sums_before_last(
      micro_batches_of(n("micro_batches"), static_cast<int>(n("rank")), static_cast<int>(n("ranks"))));
}
void require_all_reduce(const ShapeQuery& q) {
  const std::int64_t rank = q.integer("rank"), ranks = q.integer("ranks"), count = q.integer("micro_batches");
  constexpr std::int64_t k_most = 1 << 20;
  q.require(ranks >= 1 && ranks <= k_most && rank >= 0 && rank < ranks,
            "rank must be in [0, ranks); got " + std::to_string(rank) + " of " + std::to_string(ranks));
  q.require(count >= 1 && count <= k_most, "micro_batches must be in [1, 2^20]; got " + std::to_string(count));
  q.require_float(0);
  q.require_same_dtype();
  for (std::size_t i = 1; i < q.inputs.size(); ++i) q.require_shape(i, q.shape(0), "a block");
  const std::size_t wanted = std::max<std::size_t>(own_blocks(q.attributes).size(), 1);
  q.require(q.inputs.size() == wanted, "takes " + std::to_string(wanted) + " blocks for these micro-batches; got " +
                                           std::to_string(q.inputs.size()));
}
// The body of a single rank. Several ranks need a kernel that exchanges.
Values all_reduce_body(Inputs in, const Attributes& attributes) {
  std::vector<Value> sums(in.begin(), in.end());
  for (const SumStep& step : sum_steps(own_blocks(attributes)))
    sums[step.left] = sums[step.left] + sums[step.right];
  return {sums[0]};
}
bool all_reduce_needs_kernel(const Attributes& attributes) { return attributes.get<std::int64_t>("ranks") > 1; }

}  // namespace

std::span<const Composite> update_composites() {
  using K = AttributeKind;
  static const Composite rows[] = {
      {Op::sgd,
       {{"momentum", K::number}, {"nesterov", K::flag}, {"weight_decay", K::number}},
       require_sgd,
       sgd_body},
      {Op::adam,
       {{"beta1", K::number},
        {"beta2", K::number},
        {"epsilon", K::number},
        {"weight_decay", K::number},
        {"decoupled", K::flag}},
       require_adam,
       adam_body},
      {Op::rmsprop,
       {{"alpha", K::number}, {"epsilon", K::number}, {"momentum", K::number}, {"weight_decay", K::number}},
       require_rmsprop,
       rmsprop_body},
      {Op::adagrad, {{"epsilon", K::number}, {"weight_decay", K::number}}, require_one_slot, adagrad_body},
      {Op::lion,
       {{"beta1", K::number}, {"beta2", K::number}, {"weight_decay", K::number}},
       require_one_slot,
       lion_body},
      {Op::all_reduce,
       {{"micro_batches", K::integer}, {"rank", K::integer}, {"ranks", K::integer}},
       require_all_reduce,
       all_reduce_body,
       all_reduce_needs_kernel},
  };
  return rows;
}

Value all_reduce(std::span<const Value> blocks, std::int64_t micro_batches, int rank, int ranks) {
  if (blocks.empty() || !blocks[0]) throw Error(ErrorKind::usage, "all_reduce", "operand 0 is empty");
  return blocks[0].graph().append_one(
      Op::all_reduce, blocks,
      {{"micro_batches", micro_batches}, {"rank", std::int64_t{rank}}, {"ranks", std::int64_t{ranks}}});
}

}  // namespace unroll
