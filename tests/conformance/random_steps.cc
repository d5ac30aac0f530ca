// SPDX-License-Identifier: Apache-2.0
// The growth steps: one per kind of op. Functions that explode or have poles get an argument that keeps them tame.
#include <algorithm>
#include <numeric>

#include "tests/conformance/random_grower.h"

namespace unroll::testing {

namespace {

using Unary = Value (*)(Value);
struct UnaryRow {
  Unary f;
  bool keeps_exact;
  bool wants_exact = false;  // jumps where another backend may be an ulp away
};
const UnaryRow k_unary[] = {
    {[](Value x) { return neg(x); }, true},
    {[](Value x) { return abs(x); }, true},
    {[](Value x) { return relu(x); }, true},
    {[](Value x) { return stop_gradient(x); }, true},
    {[](Value x) { return stop_gradient(round_bf16(x)); }, true, true},
    {[](Value x) { return stop_gradient(round_f16(x)); }, true, true},
    {[](Value x) { return stop_gradient(round_tf32(x)); }, true, true},
    {[](Value x) { return tanh(x); }, false},
    {[](Value x) { return sigmoid(x); }, false},
    {[](Value x) { return erf(x); }, false},
    {[](Value x) { return silu(x); }, false},
    {[](Value x) { return softplus(x); }, false},
    {[](Value x) { return exp(tanh(x)); }, false},
    {[](Value x) { return exp(minimum(x, scalar_like(x, 3))); }, false},
    {[](Value x) { return expm1(minimum(x, scalar_like(x, 2))); }, false},
    {[](Value x) { return log(abs(x) + 0.5); }, false},
    {[](Value x) { return log1p(abs(x)); }, false},
    {[](Value x) { return sqrt(abs(x) + 0.25); }, false},
    {[](Value x) { return square(x) * 0.5; }, false},
    {[](Value x) { return 1.0 - x; }, false},
    {[](Value x) { return x * 1.0 + 0.0; }, false},
};

bool broadcasts(const Shape& a, const Shape& b) {
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t da = a[a.rank() - i], db = b[b.rank() - i];
    if (da != db && da != 1 && db != 1) return false;
  }
  return true;
}

}  // namespace

void Grower::grow_unary() {
  const Entry* a = pick_float();
  if (!a) return;
  const UnaryRow& row = k_unary[random_.below(std::size(k_unary))];
  if (row.wants_exact && !a->exact) return;
  const bool exact = a->exact && row.keeps_exact;
  keep(row.f(a->value), exact);
}

void Grower::grow_binary() {
  const Entry* found = pick_float();
  if (!found) return;
  const Entry a = *found;
  const Entry* other =
      pick([&](const Entry& e) { return is_float(e.value.dtype()) && broadcasts(a.value.shape(), e.value.shape()); });
  const Value b = random_.chance(0.15) ? fresh({dtype_, a.value.shape()}) : other->value;
  const bool exact = a.exact && other->exact;
  switch (random_.below(7)) {
    case 0: return keep(a.value + b, false);
    case 1: return keep(a.value - b, false);
    case 2: return keep(a.value * b, false);
    case 3: return keep(a.value / (abs(b) + 1.0), false);
    case 4: return keep(maximum(a.value, b), exact);
    case 5: return keep(minimum(a.value, b), exact);
    default: return keep(sigmoid(a.value) * tanh(b), false);
  }
}

void Grower::grow_compare() {
  const Entry* found = pick([](const Entry& e) { return e.exact && e.value.dtype() != DType::b8; });
  if (!found) return;
  const Entry a = *found;
  const Entry* b = pick([&](const Entry& e) {
    return e.exact && e.value.dtype() == a.value.dtype() && broadcasts(a.value.shape(), e.value.shape());
  });
  using Compare = Value (*)(Value, Value);
  constexpr Compare compares[] = {less, less_equal, equal};
  keep(compares[random_.below(3)](a.value, b->value), true);
}

void Grower::grow_select() {
  const Entry* found = pick_float();
  if (!found) return;
  const Entry a = *found;
  const Entry* condition = pick(
      [&](const Entry& e) { return e.value.dtype() == DType::b8 && broadcasts(a.value.shape(), e.value.shape()); });
  Value c = condition ? condition->value : fresh({DType::b8, a.value.shape()});
  if (random_.chance(0.3)) c = logical_not(c);
  if (random_.chance(0.3)) c = logical_and(c, is_finite(a.value));
  if (random_.chance(0.3)) c = logical_or(c, fresh({DType::b8, a.value.shape()}));
  const Entry* b =
      pick([&](const Entry& e) { return is_float(e.value.dtype()) && e.value.shape() == a.value.shape(); });
  keep(select(c, a.value, random_.chance(0.5) ? b->value : scalar_like(a.value, 0.5)), a.exact && b->exact);
}

// Whole numbers and truths, and back to floats.
void Grower::grow_whole() {
  const Entry* a = pick([](const Entry& e) { return e.exact && !is_float(e.value.dtype()); });
  if (!a) return keep(iota(graph_, {random_.from(1, 9)}, 0), true);
  if (a->value.dtype() == DType::b8)
    return keep(random_.chance(0.5) ? cast(a->value, dtype_) : cast(a->value, DType::i32), true);
  switch (random_.below(4)) {
    case 0: return keep(a->value + 3.0, true);
    case 1: return keep(a->value / scalar_like(a->value, 2), true);
    case 2: return keep(cast(a->value, DType::b8), true);
    default: return keep(cast(a->value, dtype_) * 0.25, false);
  }
}

void Grower::grow_reshape() {
  const Entry* a = pick_float();
  if (!a) return;
  const Shape& s = a->value.shape();
  if (s.rank() > 1 && random_.chance(0.5)) return keep(reshape(a->value, {s.elements()}), a->exact);
  if (s.rank() > 0 && s.rank() < 4)
    return keep(reshape(a->value, s.inserted(static_cast<int>(random_.below(s.rank() + 1)), 1)), a->exact);
  if (s.rank() > 0 && s[0] % 2 == 0) keep(reshape(a->value, s.with(0, s[0] / 2).inserted(1, 2)), a->exact);
}

void Grower::grow_transpose() {
  const Entry* a = pick_float(2);
  if (!a) return;
  Ints order(static_cast<std::size_t>(a->value.rank()));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(i)))]);
  keep(transpose(a->value, order), a->exact);
}

void Grower::grow_slice() {
  const Entry* a = pick_float(1);
  if (!a) return;
  const int axis = axis_of(a->value);
  const std::int64_t n = a->value.shape()[axis], start = random_.below(n);
  keep(slice(a->value, axis, start, n == 0 ? 0 : random_.from(1, n - start)), a->exact);
}

void Grower::grow_pad() {
  const Entry* a = pick_float(1);
  if (a) keep(pad(a->value, axis_of(a->value), random_.below(3), random_.below(3)), a->exact);
}

void Grower::grow_concat() {
  const Entry* found = pick_float(1);
  if (!found) return;
  const Entry a = *found;
  const int axis = axis_of(a.value);
  std::vector<Value> parts{a.value};
  bool exact = a.exact;
  for (std::int64_t i = random_.from(1, 3); i > 0; --i) {
    const Entry* b = pick([&](const Entry& e) {
      return e.value.dtype() == a.value.dtype() && e.value.rank() == a.value.rank() &&
             e.value.shape().with(axis, 0) == a.value.shape().with(axis, 0);
    });
    parts.push_back(b->value);
    exact = exact && b->exact;
  }
  keep(concat(parts, axis), exact);
}

void Grower::grow_broadcast() {
  const Entry* a = pick_float(0, 3);
  if (a) keep(broadcast(a->value, a->value.shape().inserted(0, size())), a->exact);
}

void Grower::grow_matmul() {
  const Entry* found = pick_float(2, 4);
  if (!found) return;
  const Value a = found->value;
  const int r = a.rank();
  const Transposed t{.a = random_.chance(0.3), .b = random_.chance(0.4)};
  const std::int64_t k = a.shape()[t.a ? r - 2 : r - 1];
  const Entry* other = pick([&](const Entry& e) {
    const Shape& s = e.value.shape();
    return is_float(e.value.dtype()) && s.rank() == r && s[t.b ? r - 1 : r - 2] == k &&
           std::equal(s.begin(), s.begin() + r - 2, a.shape().begin());
  });
  if (other && random_.chance(0.4)) return keep(matmul(a, other->value, t) * 0.5, false);
  const std::int64_t n = size();
  if (random_.chance(0.4))
    return keep(
        linear(t.a ? tanh(a) : a, fresh({dtype_, {n, a.shape()[r - 1]}}, {.low = -1, .high = 1}), fresh({dtype_, {n}})),
        false);
  const Shape b = a.shape().with(r - 2, t.b ? n : k).with(r - 1, t.b ? k : n);
  if (b.elements() <= 4096) keep(matmul(a, fresh({dtype_, b}, {.low = -1, .high = 1}), t), false);
}

void Grower::grow_reduce() {
  const Entry* a = pick_float(1);
  if (!a) return;
  Ints axes;
  double n = 1;
  for (int axis = 0; axis < a->value.rank(); ++axis)
    if (random_.chance(0.5))
      axes.push_back(axis), n *= static_cast<double>(std::max<std::int64_t>(a->value.shape()[axis], 1));
  const bool keep_axes = random_.chance(0.5), some = a->value.shape().elements() > 0;
  const bool exact = a->exact;
  if (some && random_.chance(0.3)) return keep(reduce_max(a->value, axes, keep_axes), exact);
  keep(reduce_sum(a->value, axes, keep_axes) * (1 / n), false);
}

void Grower::grow_argmax() {
  const Entry* a = pick([](const Entry& e) {
    return e.exact && is_float(e.value.dtype()) && e.value.rank() > 0 && e.value.shape().elements() > 0;
  });
  if (a) keep(argmax(a->value, axis_of(a->value)), true);
}

void Grower::grow_gather() {
  const Entry* found = pick_float(1, 3);
  if (!found) return;
  const Entry a = *found;
  const Entry* ids = pick([](const Entry& e) { return e.value.dtype() == DType::i32 && e.value.rank() <= 2; });
  const Range range{.low = -1, .high = static_cast<double>(a.value.shape()[0])};
  keep(gather(a.value, ids && random_.chance(0.5)
                           ? ids->value
                           : fresh({DType::i32, shape(static_cast<int>(random_.from(0, 2)))}, range)),
       a.exact);
}

void Grower::grow_scatter() {
  const Entry* a = pick_float(1, 3);
  if (!a) return;
  const std::int64_t rows = random_.from(1, 7);
  const Value updates = a->value;
  keep(scatter_add(fresh({DType::i32, {updates.shape()[0]}}, {.low = -1, .high = static_cast<double>(rows)}), updates,
                   rows),
       false);
}

void Grower::grow_random() {
  const Entry* found = pick_float();
  if (!found) return;
  const Value x = found->value, key = fresh({DType::i32, {3}}, {.low = 0, .high = 99999});
  if (random_.chance(0.5)) return keep(dropout(x, key, 0.3, random_.below(99)), false);
  keep(x * cast(random_uniform(key, x.shape(), random_.below(99)), dtype_), false);
}

void Grower::grow_composite() {
  const Entry* found = pick([](const Entry& e) {
    return is_float(e.value.dtype()) && e.value.rank() >= 1 && e.value.shape()[e.value.rank() - 1] > 0;
  });
  if (!found) return;
  const Value x = found->value;
  const Shape width{x.shape()[x.rank() - 1]};
  switch (random_.below(6)) {
    case 0: return keep(softmax(x), false);
    case 1: return keep(log_softmax(x), false);
    case 2: return keep(layer_norm(x, fresh({dtype_, width}), fresh({dtype_, width}), 0.1), false);
    case 3:
      return keep(softmax_cross_entropy(x, fresh({DType::i32, x.shape().removed(x.rank() - 1)},
                                                 {.low = 0, .high = static_cast<double>(width[0] - 1)})),
                  false);
    case 4: return keep(mse(x, fresh(x.type())), false);
    default: return keep(bce(x, fresh(x.type(), {.low = 0, .high = 1})), false);
  }
}

}  // namespace unroll::testing
