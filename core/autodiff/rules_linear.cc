// SPDX-License-Identifier: Apache-2.0
// Gradients of movement, contractions, reductions and indexing. Each is the transpose of a linear map (for reduce_max:
// of the selection).
#include "core/autodiff/rules.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;

std::int64_t integer(const Backward& b, std::string_view name) { return b.node.attributes.get<std::int64_t>(name); }
int axis_of(const Backward& b) { return static_cast<int>(integer(b, "axis")); }

// movement
Values reshape_rule(const Backward& b) { return {reshape(b.d(), b.in_type(0).shape)}; }
Values transpose_rule(const Backward& b) {
  const Ints& permutation = b.node.attributes.get<Ints>("permutation");
  Ints inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    inverse[permutation[i]] = static_cast<std::int64_t>(i);
  return {transpose(b.d(), std::move(inverse))};
}
Values slice_rule(const Backward& b) {
  const int axis = axis_of(b);
  const std::int64_t low = integer(b, "start");
  return {pad(b.d(), axis, low, b.in_type(0).shape[axis] - low - integer(b, "size"))};
}
Values pad_rule(const Backward& b) {
  const int axis = axis_of(b);
  return {slice(b.d(), axis, integer(b, "low"), b.in_type(0).shape[axis])};
}
Values concat_rule(const Backward& b) {
  const int axis = axis_of(b);
  Values parts;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < b.in.size(); ++i) {
    const std::int64_t size = b.in_type(i).shape[axis];
    parts.push_back(b.wanted[i] ? slice(b.d(), axis, start, size) : Value());
    start += size;
  }
  return parts;
}
Values broadcast_rule(const Backward& b) { return {b.d()}; }  // the walk sums over what was repeated

Values windows_rule(const Backward& b) {
  return {overlap_add(b.d(), axis_of(b), b.in_type(0).shape[axis_of(b)], integer(b, "stride"), integer(b, "dilation"))};
}

// Y = A B; with op(X) = X or its transpose: dA = D op(B)^T, dB = op(A)^T D, transposed once more where A or B were
Values matmul_rule(const Backward& b) {
  const bool ta = b.node.attributes.get_or<bool>("transpose_a", false);
  const bool tb = b.node.attributes.get_or<bool>("transpose_b", false);
  if (b.in.size() > 2)
    throw Error(ErrorKind::unsupported, "differentiate", "a matmul with a count of rows has no gradient",
                "differentiate before planning: such products are made by passes");
  Values d(2);
  const auto other = [&](std::size_t i) { return cast(b.in[i], b.d().dtype()); };
  if (b.wanted[0]) d[0] = ta ? matmul(other(1), b.d(), {tb, true}) : matmul(b.d(), other(1), {false, !tb});
  if (b.wanted[1]) d[1] = tb ? matmul(b.d(), other(0), {true, ta}) : matmul(other(0), b.d(), {!ta, false});
  return d;
}

// reductions
// `x` with the reduced axes as 1.
Value with_kept_axes(const Backward& b, Value x) {
  Shape shape = b.in_type(0).shape;
  for (const std::int64_t axis : b.node.attributes.get<Ints>("axes")) shape = shape.with(static_cast<int>(axis), 1);
  return reshape(x, shape);
}
Values reduce_sum_rule(const Backward& b) { return {broadcast(with_kept_axes(b, b.d()), b.in_type(0).shape)}; }
Values reduce_max_rule(const Backward& b) {  // shared equally among equals
  const Value hit = cast(equal(b.in[0], with_kept_axes(b, b.y())), b.in_type(0).dtype);
  const Value n_hits = reduce_sum(hit, b.node.attributes.get<Ints>("axes"), true);
  return {hit * (with_kept_axes(b, b.d()) / n_hits)};
}

// indexing: what an index out of range reads or adds is zero, both ways
Values gather_rule(const Backward& b) { return {scatter_add(b.in[1], b.d(), b.in_type(0).shape[0]), Value()}; }
Values scatter_add_rule(const Backward& b) { return {Value(), gather(b.d(), b.in[0])}; }

constexpr RuleRow k_linear_rows[] = {
    {Op::reshape, reshape_rule}, {Op::transpose, transpose_rule},     {Op::slice, slice_rule},
    {Op::pad, pad_rule},         {Op::concat, concat_rule},           {Op::broadcast, broadcast_rule},
    {Op::windows, windows_rule},
    {Op::matmul, matmul_rule},   {Op::reduce_sum, reduce_sum_rule},   {Op::reduce_max, reduce_max_rule},
    {Op::gather, gather_rule},   {Op::scatter_add, scatter_add_rule},
};

}  // namespace

std::span<const RuleRow> linear_rules() { return k_linear_rows; }

}  // namespace unroll
