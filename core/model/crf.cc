// SPDX-License-Identifier: Apache-2.0
// Linear-chain conditional random field: the sum over all label sequences and the best sequence, both as scans.
#include "core/ir/input_range.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct Sizes {
  std::int64_t T, B, K;
};

Sizes check(const Crf& crf, Value scores, Value lengths, std::string_view who) {
  const Shape& s = scores.shape();
  if (s.rank() != 3 || s[0] < 1 || lengths.shape() != Shape{s[1]} || crf.transition.shape() != Shape{s[2], s[2]})
    throw Error(ErrorKind::shape, who,
                "scores must be [T,B,K], lengths [B] and the transitions [K,K]; got " + s.text() + ", " +
                    lengths.shape().text() + " and " + crf.transition.shape().text());
  require_lengths(lengths, s[0]);
  return {s[0], s[1], s[2]};
}

// Returns log of the sum of e^x over axis 1: [B,K,K] -> [B,K], [B,K] -> [B].
Value log_sum(Value x) {
  const Value most = stop_gradient(reduce_max(x, {1}, /*keep=*/true));
  Shape shape = x.shape().removed(1);
  return log(reduce_sum(exp(x - most), {1})) + reshape(most, shape);
}

// Returns the scores of label transitions: alpha[b,i] + transition[i,j], [B,K,K].
Value arrivals(Value alpha, Value transition) {
  const std::int64_t B = alpha.shape()[0], K = alpha.shape()[1];
  return reshape(alpha, {B, K, 1}) + reshape(transition, {1, K, K});
}

Value first_row(const Crf& crf, Value scores, const Sizes& z) { return row(scores, 0) + reshape(crf.start, {1, z.K}); }
Value last_row(const Crf& crf, Value states, const Sizes& z) { return states + reshape(crf.end, {1, z.K}); }
Value steps_after_first(Value lengths) { return lengths - scalar_like(lengths, 1); }

// Returns log Z [B] by the forward algorithm.
Value log_partition(const Crf& crf, Value scores, Value lengths, const Sizes& z) {
  Value alpha = first_row(crf, scores, z);
  if (z.T > 1) {
    const auto step = [](const StepValues& v) -> StepResult {
      return {{log_sum(arrivals(v.states[0], v.constants[0])) + v.sequences[0]}, {}};
    };
    ScanOptions options;
    options.lengths = steps_after_first(lengths);
    options.finite_padding = true;
    const std::vector<Value> later{slice(scores, 0, 1, z.T - 1)};
    alpha = scan(std::vector{alpha}, later, std::vector{crf.transition}, step, options).states[0];
  }
  return log_sum(last_row(crf, alpha, z));
}

// Returns t < lengths[b], b8 [T,B].
Value live(Value lengths, std::int64_t steps) {
  return less(iota(lengths.graph(), {steps, lengths.shape()[0]}, 0), reshape(lengths, {1, lengths.shape()[0]}));
}

// Returns the score of the labels [B].
Value label_score(const Crf& crf, Value scores, Value labels, Value lengths, const Sizes& z) {
  Graph& graph = scores.graph();
  const Value none = scalar_like(labels, -1);  // an index that reads zero
  const Value real = select(live(lengths, z.T), labels, none);  // [T,B]
  const Value chosen = equal(iota(graph, {z.T, z.B, z.K}, 2), reshape(real, {z.T, z.B, 1}));
  Value total = reduce_sum(select(chosen, scores, scalar_like(scores, 0)), {0, 2}) + gather(crf.start, row(real, 0));
  const Value t = iota(graph, {z.T, z.B}, 0), end = reshape(steps_after_first(lengths), {1, z.B});
  total = total + reduce_sum(gather(crf.end, select(equal(t, end), real, none)), {0});
  if (z.T == 1) return total;
  const Value from = slice(real, 0, 0, z.T - 1), to = slice(real, 0, 1, z.T - 1);
  const Value both = logical_and(less_equal(scalar_like(from, 0), from), less_equal(scalar_like(to, 0), to));
  const Value pair = select(both, from * scalar_like(from, static_cast<double>(z.K)) + to, none);
  return total + reduce_sum(gather(reshape(crf.transition, {z.K * z.K}), pair), {0});
}

}  // namespace

Crf crf_parameters(Scope scope, std::int64_t labels) {
  const Initializer zeros = Initializer::zeros();
  return {scope.parameter("start", {labels}, zeros), scope.parameter("transition", {labels, labels}, zeros),
          scope.parameter("end", {labels}, zeros)};
}

Value crf_loss(const Crf& crf, Value scores, Value labels, Value lengths) {
  const Sizes z = check(crf, scores, lengths, "crf_loss");
  if (labels.shape() != Shape{z.T, z.B})
    throw Error(ErrorKind::shape, "crf_loss", "labels must be [T,B]; got " + labels.shape().text());
  const OriginScope of_layer(scores.graph(), crf.transition.node().origin);
  scores = without_padding(scores, lengths);
  const Value loss = log_partition(crf, scores, lengths, z) - label_score(crf, scores, labels, lengths, z);
  return select(less(scalar_like(lengths, 0), lengths), loss, scalar_like(loss, 0));
}

Value crf_decode(const Crf& crf, Value scores, Value lengths) {
  const Sizes z = check(crf, scores, lengths, "crf_decode");
  Graph& graph = scores.graph();
  const OriginScope of_layer(graph, crf.transition.node().origin);
  const Value zero = scalar_like(lengths, 0), n = steps_after_first(lengths);
  if (z.T == 1)
    return select(live(lengths, 1), reshape(argmax(last_row(crf, first_row(crf, scores, z), z), 1), {1, z.B}), zero);
  ScanOptions options;
  options.lengths = n;
  // Forward pass: the best score of a path to each label, and the previous label on it.
  const auto forward = [](const StepValues& v) -> StepResult {
    const Value all = arrivals(v.states[0], v.constants[0]);
    return {{reduce_max(all, {1}) + v.sequences[0]}, {argmax(all, 1)}};
  };
  const ScanResult best = scan(std::vector{first_row(crf, scores, z)}, std::vector{slice(scores, 0, 1, z.T - 1)},
                               std::vector{crf.transition}, forward, options);
  const Value last = argmax(last_row(crf, best.states[0], z), 1);  // [B]
  // Backward pass: follows the previous labels from the last one.
  const auto backward = [&](const StepValues& v) -> StepResult {
    const Value before = v.sequences[0], at = reshape(v.states[0], {z.B, 1});
    const Value here = equal(iota(before.graph(), {z.B, z.K}, 1), at);
    const Value label = reduce_sum(select(here, before, scalar_like(before, 0)), {1});
    return {{label}, {label}};
  };
  options.reverse = true;
  const Value found = scan(std::vector{last}, std::vector{best.outputs[0]}, {}, backward, options).outputs[0];
  const Value t = iota(graph, {z.T, z.B}, 0), end = reshape(n, {1, z.B});
  const Value labels = select(equal(t, end), reshape(last, {1, z.B}), pad(found, 0, 0, 1));
  return select(live(lengths, z.T), labels, zero);
}

}  // namespace unroll
