// SPDX-License-Identifier: Apache-2.0
// Functions of ops.h that consist of several primitives.
#include <numbers>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/ir/append.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// x with zeros where a mask is not set. Elementwise ops are computed again from masked operands: the gradient of
// (p - t)^2 is NaN at a missing target t, and stays NaN times zero.
class Seen {
 public:
  explicit Seen(Value mask) : mask_(mask) {}

  Value of(Value x, double hidden = 0, int levels = k_levels) {
    if (!is_float(x.dtype()) || (x.rank() == 0 && mask_.rank() > 0)) return x;
    return select(mask_, levels > 0 && x.shape() == mask_.shape() ? again(x, levels) : x, scalar_like(x, hidden));
  }

 private:
  static constexpr int k_levels = 16;  // of a loss written out in ops
  static constexpr std::array k_poles{Op::div, Op::log, Op::sqrt};  // not finite at 0, or of infinite slope

  // A composite of operands that have the result's shape, such as mse, works element by element.
  static bool is_loss(Value x, std::span<const Value> inputs) {
    return op_info(x.node().op).tier == OpTier::composite && inputs.size() == 2 &&
           std::ranges::all_of(inputs, [&](const Value& input) { return input.shape() == x.shape(); });
  }

  Value again(Value x, int levels) {
    if (const auto at = done_.find(x.id()); at != done_.end()) return at->second;
    const auto is_one_of = [op = x.node().op](const auto& ops) { return std::ranges::find(ops, op) != ops.end(); };
    const Node node = x.node();
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs) inputs.emplace_back(&x.graph(), input);
    if (node.op == Op::softmax_cross_entropy)  // a row without a label is not read
      inputs[1] = select(mask_, inputs[1], scalar_like(inputs[1], -1));
    else if (is_elementwise(node.op) || is_loss(x, inputs))
      for (Value& input : inputs) input = of(input, is_one_of(k_poles) ? 1 : 0, levels - 1);
    else
      return x;
    return done_[x.id()] = x.graph().append_one(node.op, inputs, node.attributes);
  }

  Value mask_;
  std::map<ValueId, Value> done_;
};

// x^n by repeated squaring, n > 0.
Value integer_power(Value x, int n) {
  Value power;
  for (; n > 0; n /= 2, x = n > 0 ? x * x : x)
    if (n % 2 == 1) power = power ? power * x : x;
  return power;
}

}  // namespace

Value greater(Value a, Value b) { return less(b, a); }
Value greater_equal(Value a, Value b) { return less_equal(b, a); }
Value not_equal(Value a, Value b) { return logical_not(equal(a, b)); }

Value moved_axis(Value x, int from, int to) {
  Ints order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + to, from);
  return from == to ? x : transpose(x, order);
}

Value square(Value x) { return x * x; }
Value relu(Value x) { return maximum(x, scalar_like(x, 0)); }
Value silu(Value x) { return x * sigmoid(x); }
Value gelu(Value x) { return x * 0.5 * (erf(x * (1 / std::numbers::sqrt2)) + 1.0); }
Value glu(Value x) {
  const std::vector<Value> halves = split(x, -1, 2);
  return halves[0] * sigmoid(halves[1]);
}
Value softplus(Value x) { return relu(x) + log1p(exp(neg(abs(x)))); }
// The second operand of maximum and minimum receives the gradient of equal ones.
Value clip(Value x, double low, double high) {
  return minimum(scalar_like(x, high), maximum(scalar_like(x, low), x));
}
// log(0) and its slope are infinite, and zero times infinity is NaN: a base of 0 takes no part in the product. A power
// that is NaN gives NaN there, too.
Value pow(Value a, Value b) {
  const Value is_zero = equal(a, scalar_like(a, 0)), zero = scalar_like(b, 0), one = scalar_like(b, 1);
  const Value of_zero = select(b < 0, scalar_like(b, std::numeric_limits<double>::infinity()),
                               select(equal(b, zero), one, select(greater(b, zero), zero, b)));
  return select(is_zero, of_zero, exp(b * log(select(is_zero, one, a))));
}
Value pow(Value x, double exponent) {
  constexpr double k_most_products = 16;
  if (std::trunc(exponent) != exponent || std::abs(exponent) > k_most_products)
    return pow(x, scalar_like(x, exponent));
  if (exponent == 0) return filled(x.graph(), x.type(), 1);
  const Value power = integer_power(x, static_cast<int>(std::abs(exponent)));
  return exponent < 0 ? 1 / power : power;
}

Value squeeze(Value x, int axis) {
  const auto at = static_cast<int>(Axes(axis).of(x.rank(), "squeeze")[0]);
  if (x.shape()[at] != 1)
    throw Error(ErrorKind::shape, "squeeze",
                "axis " + std::to_string(axis) + " of " + x.shape().text() + " does not have size 1");
  return reshape(x, x.shape().removed(at));
}
Value stack(ValueList parts) {
  std::vector<Value> rows;
  for (const Value& part : parts) rows.push_back(reshape(part, part.shape().inserted(0, 1)));
  return concat(rows, 0);
}
std::vector<Value> split(Value x, int axis, int n) {
  const std::int64_t size = x.shape()[from_end(axis, x.rank())];
  if (n <= 0 || size % n != 0)
    throw Error(ErrorKind::shape, "split",
                std::to_string(size) + " elements do not split into " + std::to_string(n) + " equal parts");
  std::vector<Value> parts;
  for (int i = 0; i < n; ++i) parts.push_back(slice(x, axis, i * (size / n), size / n));
  return parts;
}
Value row(Value x, std::int64_t index) {
  const Value part = slice(x, 0, index, 1);
  return reshape(part, part.shape().removed(0));
}

Value linear(Value x, Value weight, Value bias) {
  if (x.rank() < 1 || weight.rank() != 2)
    throw Error(ErrorKind::shape, "linear",
                "takes x [...,I] and weight [O,I]; got " + x.shape().text() + " and " + weight.shape().text());
  const std::int64_t width = x.shape()[x.rank() - 1];
  const std::int64_t rows =
      std::accumulate(x.shape().begin(), x.shape().end() - 1, std::int64_t{1}, std::multiplies<>());
  const Value product = matmul(reshape(x, Shape{rows, width}), weight, {.b = true});
  const Value y = bias ? product + bias : product;
  return reshape(y, x.shape().with(x.rank() - 1, weight.shape()[0]));
}

Value sum(Value x, const Axes& axes, bool keepdims) { return reduce_sum(x, axes, keepdims); }
Value max(Value x, const Axes& axes, bool keepdims) { return reduce_max(x, axes, keepdims); }
// -1 - x reverses the order of all i32; -x does not, for the lowest one has no opposite.
Value min(Value x, const Axes& axes, bool keepdims) {
  const auto reversed = [](Value v) { return v.dtype() == DType::i32 ? -1 - v : -v; };
  return reversed(reduce_max(reversed(x), axes, keepdims));
}
Value mean(Value x, const Axes& axes, bool keepdims) {
  if (!is_float(x.dtype()) && !is_half(x.dtype()))
    throw Error(ErrorKind::type, "mean", "takes floats; got " + x.type().text(), "Convert with cast(x, DType::f32)");
  std::int64_t n = 1;
  for (const std::int64_t axis : axes.of(x.rank(), "mean")) n *= x.shape()[static_cast<int>(axis)];
  return sum(x, axes, keepdims) * (1.0 / static_cast<double>(std::max<std::int64_t>(n, 1)));
}
Value masked_mean(Value x, Value mask) {
  const Value weights = broadcast(cast(mask, x.dtype()), x.shape());
  const Value seen = mask.dtype() == DType::b8 ? mask : logical_not(equal(mask, scalar_like(mask, 0)));
  return sum(Seen(broadcast(seen, x.shape())).of(x) * weights) / maximum(sum(weights), scalar_like(x, 1));
}

Value cumsum(Value x, int axis) {
  const Ints at = Axes(axis).of(x.rank(), "cumsum");
  Ints swapped = Axes().of(x.rank(), "cumsum");
  std::swap(swapped[0], swapped[static_cast<std::size_t>(at[0])]);
  const Value sequence = at[0] == 0 ? x : transpose(x, swapped);
  const Value start = filled(x.graph(), {x.dtype(), sequence.shape().removed(0)}, 0);
  const auto step = [](const StepValues& in) {
    const Value total = in.states[0] + in.sequences[0];
    return StepResult{{total}, {total}};
  };
  const Value sums = scan({start}, {sequence}, {}, step).outputs[0];
  return at[0] == 0 ? sums : transpose(sums, swapped);
}

Value one_hot(Value indices, std::int64_t classes, DType dtype) {
  if (classes < 1) throw Error(ErrorKind::usage, "one_hot", "needs at least one class; got " + std::to_string(classes));
  const Value column = reshape(indices, indices.shape().inserted(indices.rank(), 1));
  return cast(equal(column, iota(indices.graph(), {classes}, 0)), dtype);
}

}  // namespace unroll
