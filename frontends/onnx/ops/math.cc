// SPDX-License-Identifier: Apache-2.0
// Rounding, remainders, tests for infinity, and activations that composite operators of newer models use.
#include <cmath>
#include <limits>
#include <numbers>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();

template <auto f>
std::vector<Value> math_unary(Call& call) {
  return {f(call.in(0))};
}

// sqrt(2 / pi) (x + 0.044715 x^3)
Value tanh_gelu(Value x) {
  const Value inner = x * (mul(x, x) * 0.044715 + 1.0) * std::sqrt(2 / std::numbers::pi);
  return x * 0.5 * (tanh(inner) + 1.0);
}

std::vector<Value> gelu(Call& call) {
  const std::string form = call.text("approximate", "none");
  if (form != "none" && form != "tanh") call.refuse("approximate '" + form + "' is unknown");
  return {form == "tanh" ? tanh_gelu(call.in(0)) : unroll::gelu(call.in(0))};
}
std::vector<Value> bias_gelu(Call& call) { return {unroll::gelu(add(call.in(0), call.in(1)))}; }
std::vector<Value> fast_gelu(Call& call) {
  const Value x = call.in(0);
  return {tanh_gelu(call.has(1) ? add(x, call.in(1)) : x)};
}
std::vector<Value> quick_gelu(Call& call) {
  const Value x = call.in(0);
  return {mul(x, sigmoid(x * call.number("alpha", 1.702)))};
}

Value mish(Value x) { return mul(x, tanh(softplus(x))); }
Value hard_swish(Value x) { return mul(x, unroll::clip(x / 6.0 + 0.5, 0, 1)); }

std::vector<Value> celu(Call& call) {
  const Value x = call.in(0);
  const double alpha = call.number("alpha", 1);
  if (alpha == 0) call.refuse("alpha is 0");
  const Value zero = scalar_like(x, 0);
  return {add(maximum(x, zero), minimum(expm1(x / alpha) * alpha, zero))};
}

std::vector<Value> shrink(Call& call) {
  const Value x = call.in(0);
  const double lambda = call.number("lambd", 0.5), bias = call.number("bias", 0);
  const Value below = select(x < -lambda, x + bias, scalar_like(x, 0));
  return {select(x > lambda, x - bias, below)};
}

std::vector<Value> is_infinite(Call& call) {
  const Value x = call.in(0);
  const Value no = filled(call.graph(), {DType::b8, x.shape()}, 0);
  const Value above = call.integer("detect_positive", 1) != 0 ? equal(x, scalar_like(x, k_infinity)) : no;
  const Value below = call.integer("detect_negative", 1) != 0 ? equal(x, scalar_like(x, -k_infinity)) : no;
  return {logical_or(above, below)};
}

// Integer remainders have the sign of the divisor, or of the dividend with fmod.
std::vector<Value> remainder(Call& call) {
  const Value a = call.in(0), b = call.in(1);
  if (is_float(a.dtype())) call.unsupported("remainders of floats have no exact form");
  const Value rest = sub(a, mul(div(a, b), b));
  if (call.integer("fmod", 0) != 0) return {rest};
  const Value zero = scalar_like(rest, 0);
  const Value signs_differ = not_equal(sign(rest), sign(b));
  return {select(logical_and(not_equal(rest, zero), signs_differ), add(rest, b), rest)};
}

// No op of the library computes these functions, so that the value must be known.
template <auto f>
std::vector<Value> of_constant(Call& call) {
  Tensor y = call.literal(0);
  if (!is_float(y.dtype())) call.refuse("the input is " + y.type().text());
  for (std::int64_t i = 0; i < y.elements(); ++i) y.set(i, f(y.at(i)));
  return {constant(call.graph(), std::move(y))};
}
double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }

constexpr OperatorRow k_math_rows[] = {
    {"Celu", 12, celu},
    {"Cos", 7, of_constant<cosine>},
    {"Erf", 9, math_unary<erf>},
    {"Gelu", 20, gelu},
    {"HardSwish", 14, math_unary<hard_swish>},
    {"IsInf", 10, is_infinite},
    {"Mish", 18, math_unary<mish>},
    {"Mod", 10, remainder},
    {"Round", 11, math_unary<round_even>},
    {"Shrink", 9, shrink},
    {"Sin", 7, of_constant<sine>},
    {"BiasGelu", 1, bias_gelu, k_microsoft},
    {"FastGelu", 1, fast_gelu, k_microsoft},
    {"Gelu", 1, math_unary<unroll::gelu>, k_microsoft},
    {"QuickGelu", 1, quick_gelu, k_microsoft},
};

}  // namespace

// Floats from 2^30 on have no fraction (f32), or a negligible one (f64).
Value floor_of(Value x) {
  const Value whole = cast(cast(x, DType::i32), x.dtype());
  const Value lower = select(less(x, whole), whole - 1.0, whole);
  return select(less(abs(x), scalar_like(x, 1 << 30)), lower, x);
}

Value round_even(Value x) {
  const Value whole = floor_of(x), fraction = sub(x, whole);
  const Value integer = cast(whole, DType::i32);
  const Value is_odd = not_equal(integer, integer / 2.0 * 2.0);
  const Value half = scalar_like(x, 0.5);
  const Value is_up = logical_or(greater(fraction, half), logical_and(equal(fraction, half), is_odd));
  return select(is_up, whole + 1.0, whole);
}

std::span<const OperatorRow> math_rows() { return k_math_rows; }

}  // namespace unroll::onnx
