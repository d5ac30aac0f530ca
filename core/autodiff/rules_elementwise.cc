// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise ops. d is the cotangent of the result y. Rules use results instead of operands if this saves
// memory. A cotangent may have the broadcast shape; the caller reduces it.
#include <numbers>

#include "core/autodiff/rules.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;

Value zero_like(Value x) { return scalar_like(x, 0); }
// `d` where the condition holds, else 0.
Value where(Value condition, Value d) { return select(condition, d, zero_like(d)); }

// unary: y = f(x)
Values neg_rule(const Backward& b) { return {-b.d()}; }
Values abs_rule(const Backward& b) { return {b.d() * sign(b.in[0])}; }  // 0 at 0
Values sign_rule(const Backward&) { return {Value()}; }                 // flat
Values exp_rule(const Backward& b) { return {b.d() * b.y()}; }
Values expm1_rule(const Backward& b) { return {b.d() * (b.y() + 1)}; }
Values log_rule(const Backward& b) { return {b.d() / b.in[0]}; }
Values log1p_rule(const Backward& b) { return {b.d() / (b.in[0] + 1)}; }
Values sqrt_rule(const Backward& b) { return {b.d() * 0.5 / b.y()}; }
Values tanh_rule(const Backward& b) { return {b.d() * (1 - b.y() * b.y())}; }
Values sigmoid_rule(const Backward& b) { return {b.d() * b.y() * (1 - b.y())}; }
Values erf_rule(const Backward& b) {  // 2 / sqrt(pi) e^(-x^2)
  return {b.d() * exp(-square(b.in[0])) * (2 * std::numbers::inv_sqrtpi)};
}
Values cast_rule(const Backward& b) { return {cast(b.d(), arithmetic_dtype(b.in_type(0).dtype))}; }

// binary: y = f(a, b)
Values add_rule(const Backward& b) { return {b.d(), b.d()}; }
Values sub_rule(const Backward& b) { return {b.d(), b.wanted[1] ? -b.d() : Value()}; }
Values mul_rule(const Backward& b) {
  // A square: 2 d x at once. If d has one value per row, so does 2 d, which is cheaper than another sum of rows.
  if (b.in[0] == b.in[1]) return {(b.d() + b.d()) * b.in[0], Value()};
  return {b.wanted[0] ? b.d() * b.in[1] : Value(), b.wanted[1] ? b.d() * b.in[0] : Value()};
}
Values div_rule(const Backward& b) {  // d/b, -(d/b) y
  const Value d_a = b.d() / b.in[1];
  return {d_a, b.wanted[1] ? -(d_a * b.y()) : Value()};
}
// The second of two equal operands gets the gradient, so relu(0) = maximum(0, 0) has none.
Values first_or_second(const Backward& b, Value first) {
  return {b.wanted[0] ? where(first, b.d()) : Value(), b.wanted[1] ? select(first, zero_like(b.d()), b.d()) : Value()};
}
Values maximum_rule(const Backward& b) { return first_or_second(b, less(b.in[1], b.in[0])); }
Values minimum_rule(const Backward& b) { return first_or_second(b, less(b.in[0], b.in[1])); }
Values select_rule(const Backward& b) {
  return {Value(), b.wanted[1] ? where(b.in[0], b.d()) : Value(),
          b.wanted[2] ? select(b.in[0], zero_like(b.d()), b.d()) : Value()};
}

constexpr RuleRow k_elementwise_rows[] = {
    {Op::neg, neg_rule},         {Op::abs, abs_rule},         {Op::sign, sign_rule},   {Op::exp, exp_rule},
    {Op::expm1, expm1_rule},     {Op::log, log_rule},         {Op::log1p, log1p_rule}, {Op::sqrt, sqrt_rule},
    {Op::tanh, tanh_rule},       {Op::sigmoid, sigmoid_rule}, {Op::erf, erf_rule},     {Op::cast, cast_rule},
    {Op::add, add_rule},         {Op::sub, sub_rule},         {Op::mul, mul_rule},     {Op::div, div_rule},
    {Op::maximum, maximum_rule}, {Op::minimum, minimum_rule}, {Op::select, select_rule},
};

}  // namespace

std::span<const RuleRow> elementwise_rules() { return k_elementwise_rows; }

}  // namespace unroll
