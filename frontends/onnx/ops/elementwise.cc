// SPDX-License-Identifier: Apache-2.0
// Elementwise operators with NumPy broadcasting.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include "frontends/onnx/activations.h"
#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

Value ceil_of(Value x) { return neg(floor_of(neg(x))); }

Value logical_xor(Value a, Value b) {
  return logical_and(logical_or(a, b), logical_not(logical_and(a, b)));
}
// b8 has no comparison op.
Value equal_any(Value a, Value b) { return a.dtype() == DType::b8 ? logical_not(logical_xor(a, b)) : equal(a, b); }
Value reciprocal(Value x) { return 1.0 / x; }
Value not_a_number(Value x) { return logical_not(equal(x, x)); }

template <auto f>
std::vector<Value> unary(Call& call) {
  return {f(call.in(0))};
}
template <auto f>
std::vector<Value> binary(Call& call) {
  return {f(call.in(0), call.in(1))};
}
template <auto f>
std::vector<Value> variadic(Call& call) {
  Value result = call.in(0);
  for (std::size_t i = 1; i < call.n_inputs(); ++i) result = f(result, call.in(i));
  return {result};
}

std::vector<Value> mean_of(Call& call) {
  return {variadic<add>(call)[0] / static_cast<double>(call.n_inputs())};
}

// |x|^y = e^(y log |x|); the sign is that of x for an odd y; a negative x with a fractional y gives NaN.
Value general_power(Value x, Value y) {
  const Value whole = cast(y, DType::i32), is_whole = equal(cast(whole, y.dtype()), y);
  const Value is_odd = logical_not(equal(div(whole, scalar_like(whole, 2)) * 2.0, whole));
  const Value size = exp(mul(y, log(abs(x))));
  const Value signed_size = select(is_odd, neg(size), size);
  const Value nan = scalar_like(x, std::numeric_limits<double>::quiet_NaN());
  const Value of_negative = select(is_whole, signed_size, nan);
  const Value zero = scalar_like(x, 0);
  const Value power = select(less(x, zero), of_negative, size);
  return select(equal(y, scalar_like(y, 0)), scalar_like(x, 1), power);
}

constexpr int k_largest_whole_power = 16;

std::vector<Value> power(Call& call) {
  const Value x = call.in(0);
  const Value y = call.in(1);
  const std::optional<Tensor> known = call.importer.literal(call.names.frame, y);
  if (known && known->elements() == 1 && y.rank() <= x.rank()) {
    const double n = known->at(0);
    const bool is_whole = n == std::floor(n) && std::abs(n) <= k_largest_whole_power;
    if (is_whole && (is_float(x.dtype()) || n >= 0)) return {pow(x, n)};
    if (n == 0.5 && is_float(x.dtype())) return {sqrt(x)};
  }
  if (is_float(x.dtype())) return {general_power(x, cast(y, x.dtype()))};
  // Powers of integers are exact in f64 if they fit 32 bits.
  const Value result = general_power(cast(x, DType::f64), cast(y, DType::f64));
  return {cast(floor_of(result + 0.5), DType::i32)};
}


std::vector<Value> clip(Call& call) {
  Value x = call.in(0);
  if (call.opset() < 11) {
    const double bound = std::numeric_limits<float>::max();
    x = maximum(x, scalar_like(x, call.number("min", -bound)));
    return {minimum(x, scalar_like(x, call.number("max", bound)))};
  }
  if (call.has(1)) x = maximum(x, call.in(1));
  if (call.has(2)) x = minimum(x, call.in(2));
  return {x};
}

Value rounded_to(Value x, std::int64_t code) {
  if (code == k_float16) return round_f16(x);
  return code == k_bfloat16 ? round_bf16(x) : x;
}

// Keeps the low bits, as NumPy and ONNX Runtime do.
Value wrapped_to(Value x, std::int64_t code) {
  const double width = code <= k_int8 ? 256 : 65536;
  const Value rest = sub(x, x / width * width);  // has the sign of x
  const Value low = select(less(rest, scalar_like(x, 0)), rest + width, rest);
  if (code == k_uint8 || code == k_uint16) return low;
  return select(less(low, scalar_like(x, width / 2)), low, low - width);
}

std::vector<Value> cast_to(Call& call) {
  const std::int64_t to = call.integer("to", 0);
  call.integer("saturate", 1);  // applies to 8-bit floats only
  const ElementType* type = find_element_type(to);
  const bool is_unsigned = to == k_uint32 || to == k_uint64;  // i32 has other values
  if (!type || is_unsigned) call.unsupported("a cast to " + element_type_text(to) + " is not supported");
  const Value y = cast(call.in(0), type->dtype);
  if (!is_narrow_type(to) || call.narrow_type(y) == to) return {rounded_to(y, to)};
  const Value kept = wrapped_to(y, to);
  call.note_type(kept, static_cast<int>(to));
  return {kept};
}

std::vector<Value> cast_like(Call& call) {
  call.integer("saturate", 1);
  const Value like = call.in(1);
  if (call.importer.model.has_halves && like.dtype() == DType::f32)
    call.unsupported("the precision of '" + call.node.inputs[1] + "' is not known in a model with 16-bit floats");
  return {cast(call.in(0), like.dtype())};
}

std::vector<Value> where(Call& call) { return {select(call.in(0), call.in(1), call.in(2))}; }

std::vector<Value> identity(Call& call) { return {call.in(0)}; }

std::vector<Value> prelu(Call& call) {
  const Value x = call.in(0);
  return {select(less(x, scalar_like(x, 0)), mul(x, call.in(1)), x)};
}

// In inference a dropout is the identity, and its mask is all true.
std::vector<Value> no_dropout(Call& call) {
  const Value x = call.in(0);
  call.number("ratio", 0.5);
  call.integer("seed", 0);
  call.ignore(1);
  if (call.has(2) && call.literal(2).at(0) != 0) call.unsupported("dropout in training mode is not supported");
  return {x, filled(call.graph(), {DType::b8, x.shape()}, 1)};
}

Value negative_part(Value x, Value negative) { return select(less(x, scalar_like(x, 0)), negative, x); }

constexpr double k_selu_alpha = 1.67326319217681884765625, k_selu_gamma = 1.05070102214813232421875;
constexpr Activation k_activations[] = {
    {.name = "Sigmoid", .parameters = 0, .apply = [](Value x, double, double) { return sigmoid(x); }},
    {.name = "Tanh", .parameters = 0, .apply = [](Value x, double, double) { return tanh(x); }},
    {.name = "Relu", .parameters = 0, .apply = [](Value x, double, double) { return relu(x); }},
    {.name = "Softsign", .parameters = 0, .apply = [](Value x, double, double) { return x / (abs(x) + 1.0); }},
    {.name = "Softplus", .parameters = 0, .apply = [](Value x, double, double) { return softplus(x); }},
    {.name = "Affine", .parameters = 2, .apply = [](Value x, double a, double b) { return x * a + b; }},
    {.name = "ScaledTanh", .parameters = 2, .apply = [](Value x, double a, double b) { return tanh(x * b) * a; }},
    {.name = "LeakyRelu", .parameters = 1,
     .apply = [](Value x, double a, double) { return negative_part(x, x * a); }, .alpha = 0.01},
    {.name = "ThresholdedRelu", .parameters = 1,
     .apply = [](Value x, double a, double) { return select(greater(x, scalar_like(x, a)), x, scalar_like(x, 0)); },
     .alpha = 1},
    {.name = "HardSigmoid", .parameters = 2,
     .apply = [](Value x, double a, double b) { return unroll::clip(x * a + b, 0, 1); }, .alpha = 0.2, .beta = 0.5},
    {.name = "Elu", .parameters = 1,
     .apply = [](Value x, double a, double) { return negative_part(x, expm1(x) * a); }, .alpha = 1},
};

std::vector<Value> activation(Call& call) {
  const Activation& row = *find_activation(call.node.op);
  const double alpha = row.parameters > 0 ? call.number("alpha", row.alpha) : 0;
  const double beta = row.parameters > 1 ? call.number("beta", row.beta) : 0;
  return {row.apply(call.in(0), alpha, beta)};
}

std::vector<Value> selu(Call& call) {
  const Value x = call.in(0);
  const double alpha = call.number("alpha", k_selu_alpha);
  return {negative_part(x, expm1(x) * alpha) * call.number("gamma", k_selu_gamma)};
}

constexpr OperatorRow k_elementwise_rows[] = {
    {"Abs", 6, unary<abs>},
    {"Add", 7, binary<add>},
    {"And", 7, binary<logical_and>},
    {"Cast", 6, cast_to},
    {"CastLike", 15, cast_like},
    {"Ceil", 6, unary<ceil_of>},
    {"Clip", 6, clip},
    {"Div", 7, binary<div>},
    {"Dropout", 7, no_dropout},
    {"Elu", 6, activation},
    {"Equal", 7, binary<equal_any>},
    {"Exp", 6, unary<exp>},
    {"Floor", 6, unary<floor_of>},
    {"Greater", 7, binary<greater>},
    {"GreaterOrEqual", 12, binary<greater_equal>},
    {"HardSigmoid", 6, activation},
    {"Identity", 1, identity},
    {"IsNaN", 9, unary<not_a_number>},
    {"LeakyRelu", 6, activation},
    {"Less", 7, binary<less>},
    {"LessOrEqual", 12, binary<less_equal>},
    {"Log", 6, unary<log>},
    {"Max", 6, variadic<maximum>},
    {"Mean", 6, mean_of},
    {"Min", 6, variadic<minimum>},
    {"Mul", 7, binary<mul>},
    {"Neg", 6, unary<neg>},
    {"Not", 1, unary<logical_not>},
    {"Or", 7, binary<logical_or>},
    {"PRelu", 7, prelu},
    {"Pow", 7, power},
    {"Reciprocal", 6, unary<reciprocal>},
    {"Relu", 6, activation},
    {"Selu", 6, selu},
    {"Sigmoid", 6, activation},
    {"Sign", 9, unary<sign>},
    {"Softplus", 1, activation},
    {"Softsign", 1, activation},
    {"Sqrt", 6, unary<sqrt>},
    {"Sub", 7, binary<sub>},
    {"Sum", 6, variadic<add>},
    {"Tanh", 6, activation},
    {"ThresholdedRelu", 10, activation},
    {"Where", 9, where},
    {"Xor", 7, binary<logical_xor>},
};

}  // namespace

const Activation* find_activation(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (const Activation& row : k_activations)
    if (std::equal(name.begin(), name.end(), row.name.begin(), row.name.end(), same)) return &row;
  return nullptr;
}

std::span<const OperatorRow> elementwise_rows() { return k_elementwise_rows; }

}  // namespace unroll::onnx
