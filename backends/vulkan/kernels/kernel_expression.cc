// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "backends/common/walk.h"
#include "backends/vulkan/kernels/kernels.h"
#include "backends/vulkan/kernels/math.h"
#include "core/support/formats.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Instruction;
using common::operands_of;
using common::Strides;
using common::Walk;
using common::walk_of;

Term saturated(Code& c, Term x) {
  const Term high = c.f(2147483648.0f), low = c.f(-2147483648.0f);
  const Term safe = c.select((x >= high) | (x <= low) | is_nan(x), c.f(0), x);
  Term y = c.convert(Kind::i32, safe);
  y = c.select(x >= high, c.i(2147483647), y);
  return c.select(x <= low, c.bits(Kind::i32, 0x80000000u), y);
}

Term absolute_term(Code& c, Term a) {
  if (a.kind == Kind::f32) return c.as(Kind::f32, c.as(Kind::u32, a) & c.u(0x7fffffffu));
  return c.select(a < c.i(0), c.i(0) - a, a);
}

// As f32, with the same neighbors in a 16-bit format: of 31 bits the last 8 become one that is set where any of them is
// (rounding to odd).
Term nearby(Code& c, Term integer) {
  const Term size = c.as(Kind::u32, absolute_term(c, integer)), rest = size & c.u(0xff);
  const Term odd = (size ^ rest) | c.select(rest != c.u(0), c.u(0x100), c.u(0));
  const Term y = c.convert(Kind::f32, c.select(size < c.u(1u << 24), size, odd));
  return c.select(integer < c.i(0), -y, y);
}

Term cast_term(Code& c, DType from, DType to, Term a) {
  if (from == to) return a;
  if (is_half(from)) return cast_term(c, DType::f32, to, widened(from, a));
  if (is_half(to)) return narrowed(to, from == DType::i32 ? nearby(c, a) : c.convert(Kind::f32, a));
  const Kind kind = kind_of(to);
  if (kind == Kind::boolean) return a.kind == Kind::f32 ? (a != c.f(0)) | is_nan(a) : a != c.zero(a.kind);
  if (a.kind == Kind::f32 && kind == Kind::i32) return saturated(c, a);
  return c.convert(kind, a);
}

Term integer_quotient(Code& c, Term a, Term b) {
  const Term none = b == c.i(0), minus = b == c.i(-1);
  const Term q = a / c.select(none | minus, c.i(1), b);
  return c.select(none, c.i(0), c.select(minus, c.i(0) - a, q));
}

// NaN of either operand stays.
Term extreme(Code& c, bool largest, Term a, Term b) {
  const Term wins = largest ? a > b : a < b;
  if (a.kind != Kind::f32) return c.select(wins, a, b);
  return c.select(is_nan(a), a, c.select(is_nan(b), b, c.select(wins, a, b)));
}

Term sign_term(Code& c, Term a) {
  const Term zero = c.zero(a.kind), one = a.kind == Kind::f32 ? c.f(1) : c.i(1);
  const Term y = c.select(a > zero, one, c.select(a < zero, zero - one, zero));
  return a.kind == Kind::f32 ? c.select(is_nan(a), a, y) : y;
}

// As on the cpu: below 1 a polynomial of erf(x) / x - 1, above it of -log(1 - erf(x)).
Term erf_term(Code& c, Term x) {
  constexpr float k_low[] = {0x1.06eba8p-3f,  -0x1.81273ep-2f,  0x1.ce2cf8p-4f, -0x1.b7f90ep-6f,
                             0x1.5405b6p-8f,  -0x1.a3f718p-11f, 0x1.496a6ep-14f};
  constexpr float k_high[] = {0x1.661ce4p-12f,  0x1.2088eap0f,  0x1.46baecp-1f,  0x1.a65344p-4f,
                              -0x1.65cb7ap-6f, 0x1.825bp-9f, -0x1.86dd92p-13f};
  const auto polynomial = [&](const float (&coefficients)[7], Term at) {
    Term sum = c.f(coefficients[6]);
    for (int i = 5; i >= 0; --i) sum = sum * at + c.f(coefficients[i]);
    return sum;
  };
  const Term size = absolute_term(c, x), t = c.select(size > c.f(4), c.f(4), size);
  const Term high = c.f(1) - exp_of(-polynomial(k_high, t));
  const Term outer = c.select(x < c.f(0), -high, high);
  const Term y = c.select(size < c.f(1), x + x * polynomial(k_low, x * x), outer);
  return c.select(is_nan(x), x, y);
}

}  // namespace

ModuleOptions module_options(const Setting& setting, int operands) {
  const int words = operands + 1 + (setting.live ? 1 : 0);
  return {.buffers = words,
          .local_size = setting.local_size,
          .push_words = words,
          .preserve_nan = setting.preserve_nan,
          .live = setting.live};
}
Term parameter(Code& c, int index) { return c.load(0, c.push(0) + c.u(static_cast<std::uint32_t>(index))); }

Kind kind_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return Kind::f32;
    case DType::i32: return Kind::i32;
    case DType::b8: return Kind::boolean;
    case DType::bf16:
    case DType::f16: return Kind::u32;
    default:
      throw Error(ErrorKind::unsupported, "vulkan",
                  "has f32, i32, b8, bf16 and f16; got " + std::string(dtype_name(dtype)), "Use the cpu backend");
  }
}

Term load_element(Code& c, int operand, Term index, DType dtype) {
  const Term at = c.base(operand) + index;
  if (is_half(dtype)) return c.load_half(1 + operand, at);
  return dtype == DType::b8 ? c.load_truth(1 + operand, at) : c.load(1 + operand, at, kind_of(dtype));
}
void store_element(Code& c, int operand, Term index, Term value, DType dtype) {
  c.guard(operand, index, [&] {
    const Term at = c.base(operand) + index;
    if (is_half(dtype)) c.store_half(1 + operand, at, value);
    else if (dtype == DType::b8) c.store_truth(1 + operand, at, value);
    else c.store(1 + operand, at, value);
  });
}

Term widened(DType from, Term value) {
  return from == DType::bf16 ? from_bf16(value) : from == DType::f16 ? from_f16(value) : value;
}
Term narrowed(DType to, Term value) {
  return to == DType::bf16 ? to_bf16(value) : to == DType::f16 ? to_f16(value) : value;
}

Term constant_term(Code& c, const std::pair<DType, double>& constant) {
  if (constant.first == DType::bf16) return c.u(unroll::to_bf16(constant.second).bits);
  if (constant.first == DType::f16) return c.u(unroll::to_f16(constant.second).bits);
  const Kind kind = kind_of(constant.first);
  if (kind == Kind::f32) return c.f(static_cast<float>(constant.second));
  return kind == Kind::i32 ? c.i(static_cast<std::int32_t>(constant.second)) : c.truth(constant.second != 0);
}

Term instruction_term(Code& c, const Instruction& i, Term a, Term b, Term other) {
  switch (i.op) {
    case Op::neg: return a.kind == Kind::f32 ? -a : c.i(0) - a;
    case Op::abs: return absolute_term(c, a);
    case Op::sign: return sign_term(c, a);
    case Op::exp: return exp_of(a);
    case Op::expm1: return expm1_of(a);
    case Op::log: return log_of(a);
    case Op::log1p: return log1p_of(a);
    case Op::sqrt: return c.call(Ext::sqrt, {a});
    case Op::tanh: return tanh_of(a);
    case Op::sigmoid: return sigmoid_of(a);
    case Op::erf: return erf_term(c, a);
    case Op::round_bf16: return round_bits(a, 16);
    case Op::round_f16: return round_f16_of(a);
    case Op::round_tf32: return round_bits(a, 13);
    case Op::stop_gradient: return a;
    case Op::is_finite: return is_finite_of(a);
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a.kind == Kind::f32 ? a / b : integer_quotient(c, a, b);
    case Op::maximum: return extreme(c, true, a, b);
    case Op::minimum: return extreme(c, false, a, b);
    case Op::less: return a.kind == Kind::boolean ? (!a) & b : a < b;
    case Op::less_equal: return a.kind == Kind::boolean ? (!a) | b : a <= b;
    case Op::equal: return a == b;
    case Op::logical_and: return a & b;
    case Op::logical_or: return a | b;
    case Op::logical_not: return !a;
    case Op::select: return c.select(a, b, other);
    case Op::cast: return cast_term(c, i.dtype, i.to, a);
    default:
      throw Error(ErrorKind::unsupported, "vulkan", "has no instruction for " + std::string(op_info(i.op).name));
  }
}

bool Buffers::is_first(std::size_t operand) const {
  return std::find(of.begin(), of.end(), of[operand]) - of.begin() == static_cast<std::ptrdiff_t>(operand);
}
Buffers separate_buffers(std::size_t operands) {
  Buffers b{{}, std::vector<std::uint32_t>(operands, 0), static_cast<int>(operands)};
  for (int k = 0; k < b.count; ++k) b.of.push_back(k);
  return b;
}

std::string expression_key(const Expression& e, const Buffers& buffers) {
  std::string key = "e" + std::to_string(e.shape.rank());
  const auto number = [&](std::uint64_t n) { key += std::to_string(n) + ","; };
  for (const auto& input : e.inputs) number(static_cast<std::uint64_t>(input.dtype));
  for (const Strides* strides : operands_of(e)) {
    key += static_cast<char>(walk_of(e.shape, *strides));
    if (walk_of(e.shape, *strides) != Walk::strided) continue;
    for (int axis = 0; axis < e.shape.rank(); ++axis) key += (*strides)[axis] ? '1' : '0';
  }
  key += ";";
  for (const int buffer : buffers.of) number(static_cast<std::uint64_t>(buffer));
  key += ";";
  for (const auto& [dtype, value] : e.constants) {
    number(static_cast<std::uint64_t>(dtype));
    number(std::bit_cast<std::uint64_t>(value));
  }
  for (const Instruction& i : e.instructions)
    for (const std::uint64_t n : {std::uint64_t(i.op), std::uint64_t(i.dtype), std::uint64_t(i.to), std::uint64_t(i.a),
                                  std::uint64_t(i.b), std::uint64_t(i.c)})
      number(n);
  for (const auto& result : e.results) number(result.from);
  return key;
}

// Sizes of the axes, strides of operands that have some, distances of operands that share a buffer.
Params expression_params(const Expression& e, const Buffers& buffers) {
  Params p{static_cast<std::uint32_t>(e.shape.elements())};
  for (const std::int64_t size : e.shape.dims()) p.push_back(static_cast<std::uint32_t>(size));
  for (const Strides* strides : operands_of(e)) {
    if (walk_of(e.shape, *strides) != Walk::strided) continue;
    for (int axis = 0; axis < e.shape.rank(); ++axis)
      p.push_back(static_cast<std::uint32_t>((*strides)[axis]));
  }
  for (std::size_t k = 0; k < buffers.of.size(); ++k)
    if (!buffers.is_first(k)) p.push_back(buffers.distance[k]);
  return p;
}

namespace {

// The offset of the element in each operand.
std::vector<Term> places_of(Code& c, const Expression& e, int first_param, Term element, int& next) {
  const auto operands = operands_of(e);
  const int rank = e.shape.rank();
  std::vector<Term> coordinates(rank);
  bool strided = false;
  for (const Strides* strides : operands) strided = strided || walk_of(e.shape, *strides) == Walk::strided;
  Term rest = element;
  for (int axis = rank - 1; strided && axis >= 0; --axis) {
    const Term size = parameter(c, first_param + 1 + axis);
    coordinates[axis] = axis > 0 ? rest % size : rest;
    if (axis > 0) rest = rest / size;
  }
  next = first_param + 1 + rank;
  std::vector<Term> places;
  for (const Strides* strides : operands) {
    const Walk walk = walk_of(e.shape, *strides);
    Term at = walk == Walk::dense ? element : c.u(0);
    for (int axis = 0; walk == Walk::strided && axis < rank; ++axis, ++next)
      if ((*strides)[axis] != 0)
        at = at + coordinates[axis] * parameter(c, next);
    places.push_back(at);
  }
  return places;
}

}  // namespace

void write_expression(Code& c, const Expression& e, const ExpressionPlace& place, Term element,
                      const std::vector<Term>& given) {
  const Buffers& buffers = *place.buffers;
  int next = 0;  // parameter
  const std::vector<Term> places = places_of(c, e, place.param, element, next);
  std::size_t operand = 0;
  const auto at = [&](std::size_t k) {
    return buffers.is_first(operand) ? places[k] : places[k] + parameter(c, next++);
  };
  std::vector<Term> registers;
  for (std::size_t k = 0; k < e.inputs.size(); ++k) {
    if (k < given.size() && given[k].code) {
      registers.push_back(given[k]);
      continue;
    }
    registers.push_back(load_element(c, place.operand + buffers.of[operand], at(k), e.inputs[k].dtype));
    ++operand;
  }
  for (const auto& constant : e.constants) registers.push_back(constant_term(c, constant));
  for (const Instruction& i : e.instructions)
    registers.push_back(instruction_term(c, i, registers[i.a], registers[i.b], registers[i.c]));
  const std::vector<DType> dtypes = common::register_dtypes(e);
  for (std::size_t k = 0; k < e.results.size(); ++k, ++operand) {
    const std::uint16_t from = e.results[k].from;
    store_element(c, place.operand + buffers.of[operand], at(e.inputs.size() + k), registers[from], dtypes[from]);
  }
}

Words expression_shader(const Expression& e, const Buffers& buffers, const Setting& setting) {
  Code c(module_options(setting, buffers.count));
  const Term element = c.global_index();
  c.when(element < c.live_items(parameter(c, 0)), [&] { write_expression(c, e, {0, 0, &buffers}, element); });
  return c.finish();
}

}  // namespace unroll::vulkan
