// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/pooling.h"

#include "core/ir/input_range.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct Sequence {
  Value y;        // [T,B,W]
  Value lengths;  // i32 [B], or empty
  Value live;     // b8 [T,B,1] if there are lengths
  std::int64_t steps() const { return y.shape()[0]; }
  std::int64_t width() const { return y.shape()[2]; }
};

// Returns the output at the last step of each sequence.
Value last(const Sequence& s, Value y) {
  if (!s.lengths) return row(y, s.steps() - 1);
  const Value t = iota(y.graph(), {s.steps(), s.lengths.shape()[0], 1}, 0);
  const Value end = reshape(sub(s.lengths, scalar_like(s.lengths, 1)), {1, s.lengths.shape()[0], 1});
  return reduce_sum(select(equal(t, end), y, scalar_like(y, 0)), {0});
}

Pooled final_output(const Scope&, const Sequence& s, bool bidirectional) {
  if (!bidirectional) return {last(s, s.y), {}};
  const std::int64_t half = s.width() / 2;
  return {concat(std::vector{last(s, slice(s.y, 2, 0, half)), slice(row(s.y, 0), 1, half, half)}, 1), {}};
}

// Returns the mean output; y is zero after the end of its sequence.
Pooled mean_output(const Scope&, const Sequence& s, bool) {
  const Value total = reduce_sum(s.y, {0});
  if (!s.lengths) return {total / static_cast<double>(s.steps()), {}};
  const Value count = maximum(s.lengths, scalar_like(s.lengths, 1));
  return {total / cast(reshape(count, {count.shape()[0], 1}), total.dtype()), {}};
}

Pooled max_output(const Scope&, const Sequence& s, bool) {
  if (!s.live) return {reduce_max(s.y, {0}), {}};
  const Value least = scalar_like(s.y, -3e38);
  const Value most = reduce_max(select(s.live, s.y, least), {0});
  return {select(equal(most, least), scalar_like(most, 0), most), {}};
}

Pooled attention_output(const Scope& scope, const Sequence& s, bool) {
  const Value hidden = tanh(linear_layer(scope.child("attention"), s.y, s.width()));
  const Value score = linear_layer(scope.child("score"), hidden, 1, /*bias=*/false);    // [T,B,1]
  const Value by_row = transpose(reshape(score, {s.steps(), s.y.shape()[1]}), {1, 0});  // [B,T]
  Value weights = by_row;
  if (s.live)
    weights =
        select(transpose(reshape(s.live, {s.steps(), s.y.shape()[1]}), {1, 0}), by_row, scalar_like(by_row, -1e30));
  weights = transpose(softmax(weights), {1, 0});
  return {reduce_sum(reshape(weights, score.shape()) * s.y, {0}), weights};
}

struct PoolingRow {
  std::string_view name;
  Pooled (*pool)(const Scope&, const Sequence&, bool bidirectional);
};
constexpr PoolingRow k_ways[] = {
    {"final", final_output}, {"mean", mean_output}, {"max", max_output}, {"attention", attention_output}};

}  // namespace

Value live_steps(Value lengths, std::int64_t steps) {
  require_lengths(lengths, steps);
  const std::int64_t B = lengths.shape()[0];
  return less(iota(lengths.graph(), {steps, B}, 0), reshape(lengths, {1, B}));
}

Pooled pooled(const Scope& scope, Value y, const std::string& how, bool bidirectional, Value lengths) {
  Sequence s{y, lengths, {}};
  if (lengths) s.live = reshape(live_steps(lengths, s.steps()), {s.steps(), y.shape()[1], 1});
  for (const PoolingRow& row : k_ways)
    if (row.name == how) return row.pool(scope, s, bidirectional);
  throw Error(ErrorKind::usage, "pooling", "must be final, mean, max or attention; got '" + how + "'");
}

Value sequence_answers(Scope& scope, Value x, const RecurrentModelOptions& model, const std::string& pooling,
                       std::int64_t n) {
  const Value y = recurrent_model(scope.child("recurrent"), x, model).y;
  const Value one = pooled(scope, y, pooling, model.bidirectional).output;
  return linear_layer(scope.child("output"), dropout_layer(scope, one, model.dropout), n);
}

}  // namespace unroll
