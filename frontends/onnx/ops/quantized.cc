// SPDX-License-Identifier: Apache-2.0
// Quantized operators. Integers of 8 and 16 bits are i32. Products of integers use a float type in which each sum is
// exact, since matmul is defined for floats only.
#include <algorithm>
#include <string>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

struct IntegerRange {
  double low, high;
};
IntegerRange range_of(const Call& call, int code) {
  if (code == k_uint8) return {0, 255};
  if (code == k_int8) return {-128, 127};
  if (code == k_uint16) return {0, 65535};
  if (code == k_int16) return {-32768, 32767};
  call.unsupported("quantization to " + element_type_text(code) + " is not supported");
}

// The type of a zero point determines the type of the quantized tensor.
int zero_type(Call& call, std::size_t input) {
  const int code = call.narrow_type(call.in(input));
  if (code == 0)
    call.unsupported("the element type of '" + call.node.inputs[input] + "' is not known, or not an integer of 8 or "
                     "16 bits");
  return code;
}

// Rounds, then adds the zero point and saturates. Clamping before the cast keeps infinities within 32 bits.
Value quantized(Value x, Value scale, Value zero, IntegerRange range) {
  const Value rounded = round_even(div(x, scale));
  if (!zero) return cast(unroll::clip(rounded, range.low, range.high), DType::i32);
  const Value z = cast(zero, x.dtype());
  return add(cast(minimum(maximum(rounded, range.low - z), range.high - z), DType::i32), zero);
}

struct QuantizedTensor {
  Value values, scale, zero;  // i32, float, i32
};
// Zero is always representable. A tensor of zeros has scale 1, as in ONNX Runtime.
QuantizedTensor quantized_dynamically(Value x) {
  const Value zero = scalar_like(x, 0);
  const Value low = minimum(min(x), zero), high = maximum(max(x), zero);
  const Value width = sub(high, low);
  const Value scale = select(equal(width, zero), scalar_like(x, 1), width / 255.0);
  const Value point = cast(round_even(unroll::clip(div(neg(low), scale), 0, 255)), DType::i32);
  return {quantized(x, scale, point, {0, 255}), scale, point};
}

std::vector<Value> dynamic_quantize_linear(Call& call) {
  const QuantizedTensor q = quantized_dynamically(call.in(0));
  call.note_type(q.values, k_uint8);
  call.note_type(q.zero, k_uint8);
  return {q.values, q.scale, q.zero};
}

// Scales and zero points: one for the tensor, one per slice of an axis, or one per block of the axis.
struct Spread {
  Call& call;
  Shape shape;
  std::int64_t given_axis, block;

  Value operator()(Value v) const {
    if (block == 0 && v.shape().elements() == 1) return reshape(v, Shape{});
    const int rank = shape.rank(), axis = call.axis(given_axis, rank);
    const std::int64_t n = shape[axis];
    if (block == 0) {
      if (v.shape() != Shape{n}) call.refuse("a scale or zero point is " + v.shape().text() + ", not one per slice");
      Ints dims(rank, 1);
      dims[axis] = n;
      return reshape(v, Shape(dims));
    }
    if (v.rank() != rank || v.shape()[axis] != n / block + (n % block != 0))
      call.refuse("a scale or zero point is " + v.shape().text() + ", not one per block");
    const std::int64_t blocks = v.shape()[axis];
    const Value repeated = broadcast(reshape(v, v.shape().inserted(axis + 1, 1)), v.shape().inserted(axis + 1, block));
    return slice(reshape(repeated, v.shape().with(axis, blocks * block)), axis, 0, n);
  }
};
Spread spread_over(Call& call, Value x) {
  const std::int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
  if (block < 0) call.refuse("block_size is negative");
  return {call, x.shape(), axis, block};
}

Value as_f32(Value x) { return x.dtype() == DType::i32 ? cast(x, DType::f32) : x; }

std::vector<Value> quantize_linear(Call& call) {
  const Value x = call.in(0), scale = call.in(1);
  const Spread spread = spread_over(call, x);
  call.integer("saturate", 1);  // applies to 8-bit floats only
  const auto output_type = static_cast<int>(call.integer("output_dtype", 0));
  const int code = call.has(2) ? zero_type(call, 2) : output_type == 0 ? k_uint8 : output_type;
  if (output_type != 0 && output_type != code) call.refuse("output_dtype differs from the type of y_zero_point");
  const Value zero = call.has(2) ? spread(call.in(2)) : Value();
  const Value y = quantized(as_f32(x), spread(scale), zero, range_of(call, code));
  call.note_type(y, code);
  return {y};
}

std::vector<Value> dequantize_linear(Call& call) {
  const Value x = call.in(0);
  if (x.dtype() != DType::i32) call.refuse("x is not an integer");
  const Spread spread = spread_over(call, x);
  const Value scale = spread(call.in(1));
  const Value difference = call.has(2) ? sub(x, spread(call.in(2))) : x;
  return {mul(cast(difference, scale.dtype()), scale)};
}

// Parameters of a matrix: one, or one per row of the left operand ([M] or [...,M,1]), or per column of the right one.
Value per_row(Value v) { return v.rank() == 1 && v.shape()[0] > 1 ? reshape(v, v.shape().inserted(1, 1)) : v; }
Value per_column(Value v) { return v; }
Value centered(Call& call, std::size_t input, std::size_t zero, Value (*spread)(Value)) {
  const Value x = call.in(input);
  if (x.dtype() != DType::i32) call.refuse("input " + std::to_string(input) + " is not an integer");
  if (x.rank() == 0) call.refuse("needs at least vectors");
  return call.has(zero) ? sub(x, spread(call.in(zero))) : x;
}

Value integer_product(Value a, Value b) {
  const DType type = exact_type(a.shape()[a.rank() - 1]);
  return cast(numpy_matmul(cast(a, type), cast(b, type)), DType::i32);
}

std::vector<Value> matmul_integer(Call& call) {
  return {integer_product(centered(call, 0, 2, per_row), centered(call, 1, 3, per_column))};
}

std::vector<Value> qlinear_matmul(Call& call) {
  const Value product = integer_product(centered(call, 0, 2, per_row), centered(call, 3, 5, per_column));
  const Value scale = mul(per_row(call.in(1)), per_column(call.in(4)));
  const int code = zero_type(call, 7);
  const Value real = cast(product, DType::f32), factor = div(scale, per_row(call.in(6)));
  const Value y = quantized(mul(real, factor), scalar_like(real, 1), per_row(call.in(7)), range_of(call, code));
  call.note_type(y, code);
  return {y};
}

// One parameter, or one for each channel on an axis of a tensor of this rank.
Value on_channels(Value v, int axis, int rank) {
  if (v.shape().elements() == 1) return reshape(v, Shape{});
  Ints dims(rank, 1);
  dims[axis] = v.shape().elements();
  return reshape(v, Shape(dims));
}

// Input x [N, C, L...] with a zero point, weight [O, C, K...] with one zero point or O, and bias or none; sums are
// exact.
Value integer_convolution(Call& call, Value x, std::size_t w, std::size_t w_zero, Value bias) {
  Value weight = call.in(w);
  if (weight.dtype() != DType::i32 || weight.rank() < 3) call.refuse("the weight is not integers [O, C, K...]");
  if (call.has(w_zero)) weight = sub(weight, on_channels(call.in(w_zero), 0, weight.rank()));
  const DType type = exact_type(weight.shape().elements() / std::max<std::int64_t>(weight.shape()[0], 1));
  const Value sum = cast(convolved(call, cast(x, type), cast(weight, type), Value()), DType::i32);
  return bias ? add(sum, on_channels(bias, 1, sum.rank())) : sum;
}

std::vector<Value> conv_integer(Call& call) {
  return {integer_convolution(call, centered(call, 0, 2, per_column), 1, 3, Value())};
}

// x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias
std::vector<Value> qlinear_conv(Call& call) {
  const Value sum = integer_convolution(call, centered(call, 0, 2, per_column), 3, 5, call.in_or_none(8));
  const Value scale = div(mul(call.in(1), on_channels(call.in(4), 1, sum.rank())), call.in(6));
  const int code = zero_type(call, 7);
  const Value real = cast(sum, DType::f32);
  const Value y = quantized(mul(real, scale), scalar_like(real, 1), call.in(7), range_of(call, code));
  call.note_type(y, code);
  return {y};
}

// com.microsoft: A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias
std::vector<Value> matmul_integer_to_float(Call& call) {
  const Value product = integer_product(centered(call, 0, 4, per_row), centered(call, 1, 5, per_column));
  const Value scale = mul(per_row(call.in(2)), per_column(call.in(3)));
  const Value y = mul(cast(product, scale.dtype()), scale);
  return {call.has(6) ? add(y, call.in(6)) : y};
}

// com.microsoft: A, B, b_scale, b_zero_point, bias
std::vector<Value> dynamic_quantize_matmul(Call& call) {
  if (call.in(0).rank() == 0) call.refuse("needs at least vectors");
  const QuantizedTensor a = quantized_dynamically(call.in(0));
  const Value product = integer_product(sub(a.values, a.zero), centered(call, 1, 3, per_column));
  const Value y = mul(cast(product, a.scale.dtype()), mul(a.scale, call.in(2)));
  return {call.has(4) ? add(y, call.in(4)) : y};
}

constexpr OperatorRow k_quantized_rows[] = {
    {"ConvInteger", 10, conv_integer},
    {"DequantizeLinear", 10, dequantize_linear},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear},
    {"MatMulInteger", 10, matmul_integer},
    {"QLinearConv", 10, qlinear_conv},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QuantizeLinear", 10, quantize_linear},
    {"DequantizeLinear", 1, dequantize_linear, k_microsoft},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, k_microsoft},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, k_microsoft},
    {"QuantizeLinear", 1, quantize_linear, k_microsoft},
};

}  // namespace

// A product of two differences of 8-bit integers is at most 255 * 255.
DType exact_type(std::int64_t n) { return n <= (1 << 24) / (255 * 255) ? DType::f32 : DType::f64; }

Value dynamic_product(Value x, Value w, Value w_scale) {
  const QuantizedTensor q = quantized_dynamically(x);
  const Value product = linear(cast(sub(q.values, q.zero), w.dtype()), w);
  return mul(cast(product, x.dtype()), mul(q.scale, w_scale));
}

std::span<const OperatorRow> quantized_rows() { return k_quantized_rows; }

}  // namespace unroll::onnx
