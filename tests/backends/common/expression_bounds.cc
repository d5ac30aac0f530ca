// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic over the elementwise ops.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "core/support/formats.h"
#include "core/support/philox.h"
#include "tests/backends/common/expression_trees.h"

namespace unroll::testing {

namespace {

using Wide = long double;
constexpr Wide k_inf = std::numeric_limits<Wide>::infinity();
constexpr Bound k_nothing{k_inf, -k_inf, true};  // NaN only
constexpr Bound k_anything{-k_inf, k_inf, true};
constexpr Bound k_any_int{-2147483648.0L, 2147483647.0L, false};

bool is_empty(const Bound& x) { return x.lo > x.hi; }
bool is_point(const Bound& x) { return !x.nan && x.lo == x.hi; }
Bound point(Wide x) { return x != x ? k_nothing : Bound{x, x, false}; }
Bound united(const Bound& a, const Bound& b) {
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), a.nan || b.nan};
}

struct Format {
  Wide epsilon, largest, smallest;
};
Format format_of(DType dtype) {
  if (dtype == DType::f32) return {FLT_EPSILON, FLT_MAX, FLT_MIN};
  return {DBL_EPSILON, DBL_MAX, DBL_MIN};
}

// The same after an error of some ulp, in the range of the format.
Bound rounded(Bound x, DType dtype, Wide ulp) {
  if (is_empty(x)) return x;
  const Format f = format_of(dtype);
  const auto moved = [&](Wide end, Wide direction) {
    if (std::isinf(end)) return end;
    const Wide there = end + direction * (ulp * f.epsilon * std::fabs(end) + f.smallest);
    // Beyond the largest number is infinity, certainly or perhaps: the end nearer to 0 stays finite where perhaps.
    if (std::fabs(there) <= f.largest) return there;
    const bool outward = (there > 0) == (direction > 0);
    return outward || std::fabs(there) > f.largest * (1 + 4 * f.epsilon) ? std::copysign(k_inf, there)
                                                                         : std::copysign(f.largest, there);
  };
  return {moved(x.lo, -1), moved(x.hi, 1), x.nan};
}

// Exact operands of an op that IEEE 754 rounds correctly give one number.
template <class F>
Bound exact(DType dtype, const Bound& a, const Bound& b, F f) {
  const auto in = [&](auto zero) {
    using T = decltype(zero);
    return point(static_cast<Wide>(f(static_cast<T>(a.lo), static_cast<T>(b.lo))));
  };
  return dtype == DType::f32 ? in(float{}) : in(double{});
}

// Over the ends of both operands; a pair of ends that gives NaN says that others near it may give anything.
template <class F>
Bound from_ends(const Bound& a, const Bound& b, F f) {
  Bound y{k_inf, -k_inf, a.nan || b.nan};
  if (is_empty(a) || is_empty(b)) return k_nothing;
  for (const Wide p : {a.lo, a.hi})
    for (const Wide q : {b.lo, b.hi}) {
      const Wide v = f(p, q);
      if (v != v) return is_point(a) && is_point(b) ? k_nothing : k_anything;
      y = united(y, {v, v, false});
    }
  return y;
}

template <class F>
Bound increasing(Bound x, F f, Wide lowest = -k_inf) {
  if (is_empty(x)) return k_nothing;
  if (x.hi < lowest) return k_nothing;
  if (x.lo < lowest) x.lo = lowest, x.nan = true;
  return {f(x.lo), f(x.hi), x.nan};
}

Bound divided(const Bound& a, const Bound& b) {
  if (is_empty(a) || is_empty(b)) return k_nothing;
  if (b.lo <= 0 && b.hi >= 0) return k_anything;
  return from_ends(a, b, [](Wide p, Wide q) { return p / q; });
}

Bound multiplied(const Bound& a, const Bound& b) {
  const auto holds_zero = [](const Bound& x) { return x.lo <= 0 && x.hi >= 0; };
  const auto unlimited = [](const Bound& x) { return std::isinf(x.lo) || std::isinf(x.hi); };
  if ((holds_zero(a) && unlimited(b)) || (holds_zero(b) && unlimited(a))) return k_anything;
  return from_ends(a, b, [](Wide p, Wide q) { return p * q; });
}

template <class F, class Wider>
Bound basic(DType dtype, const Bound& a, const Bound& b, F f, Wider wider) {
  return is_point(a) && is_point(b) ? exact(dtype, a, b, f) : rounded(wider(a, b), dtype, 1);
}

Bound float_binary(const Instruction& i, const Bound& a, const Bound& b) {
  if (is_empty(a) || is_empty(b)) return k_nothing;
  const bool nan = a.nan || b.nan;
  const auto sum = [](auto x, auto y) { return x + y; };
  const auto difference = [](auto x, auto y) { return x - y; };
  switch (i.op) {
    case Op::add: return basic(i.dtype, a, b, sum, [&](auto& p, auto& q) { return from_ends(p, q, sum); });
    case Op::sub:
      return basic(i.dtype, a, b, difference, [&](auto& p, auto& q) { return from_ends(p, q, difference); });
    case Op::mul: return basic(i.dtype, a, b, [](auto x, auto y) { return x * y; }, multiplied);
    case Op::div:
      if (is_point(b) && b.lo == 0) return k_anything;  // the sign of a zero is not followed
      return basic(i.dtype, a, b, [](auto x, auto y) { return x / y; }, divided);
    case Op::maximum: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi), nan};
    default: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi), nan};
  }
}

Wide logistic(Wide x) { return 1 / (1 + std::exp(-x)); }

Bound float_unary(const Instruction& i, const Bound& a, Wide ulp) {
  switch (i.op) {
    case Op::neg: return is_empty(a) ? a : Bound{-a.hi, -a.lo, a.nan};
    case Op::abs:
      if (is_empty(a)) return a;
      if (a.lo <= 0 && a.hi >= 0) return {0, std::max(-a.lo, a.hi), a.nan};
      return {std::min(std::fabs(a.lo), std::fabs(a.hi)), std::max(std::fabs(a.lo), std::fabs(a.hi)), a.nan};
    case Op::sign: return increasing(a, [](Wide x) { return static_cast<Wide>((x > 0) - (x < 0)); });
    case Op::sqrt:
      if (is_point(a) && a.lo >= 0) return exact(i.dtype, a, a, [](auto x, auto) { return std::sqrt(x); });
      return rounded(increasing(a, [](Wide x) { return std::sqrt(x); }, 0), i.dtype, 1);
    case Op::exp: return rounded(increasing(a, [](Wide x) { return std::exp(x); }), i.dtype, ulp);
    case Op::expm1: return rounded(increasing(a, [](Wide x) { return std::expm1(x); }), i.dtype, ulp);
    case Op::log: return rounded(increasing(a, [](Wide x) { return std::log(x); }, 0), i.dtype, ulp);
    case Op::log1p: return rounded(increasing(a, [](Wide x) { return std::log1p(x); }, -1), i.dtype, ulp);
    case Op::tanh: return rounded(increasing(a, [](Wide x) { return std::tanh(x); }), i.dtype, ulp);
    case Op::sigmoid: return rounded(increasing(a, logistic), i.dtype, ulp);
    case Op::erf: return rounded(increasing(a, [](Wide x) { return std::erf(x); }), i.dtype, ulp);
    case Op::round_bf16: return increasing(a, [](Wide x) { return round_to(k_bf16, x); });
    case Op::round_f16: return increasing(a, [](Wide x) { return round_to(k_f16, x); });
    case Op::round_tf32: return increasing(a, [](Wide x) { return round_to(k_tf32, x); });
    default: return a;  // stop_gradient
  }
}

Wide wrapped(Wide x) {
  return static_cast<Wide>(static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(x))));
}

Bound int_op(const Instruction& i, const Bound& a, const Bound& b) {
  if (i.op == Op::stop_gradient) return a;
  if (i.op == Op::maximum || i.op == Op::minimum || i.op == Op::sign)
    return i.op == Op::sign ? float_unary(i, a, 0) : float_binary(i, a, b);
  if (!is_point(a) || !is_point(b)) return k_any_int;
  const auto x = static_cast<std::int64_t>(a.lo), y = static_cast<std::int64_t>(b.lo);
  switch (i.op) {
    case Op::neg: return point(wrapped(static_cast<Wide>(-x)));
    case Op::abs: return point(wrapped(static_cast<Wide>(x < 0 ? -x : x)));
    case Op::add: return point(wrapped(static_cast<Wide>(x + y)));
    case Op::sub: return point(wrapped(static_cast<Wide>(x - y)));
    case Op::mul: return point(wrapped(static_cast<Wide>(x * y)));
    default: return point(y == 0 ? 0 : wrapped(static_cast<Wide>(x / y)));
  }
}

// From what certainly holds and what certainly does not.
Bound truth(bool certain, bool impossible) {
  return {certain ? 1.0L : 0.0L, impossible ? 0.0L : 1.0L, false};
}

Bound test(Op op, const Bound& a, const Bound& b) {
  if (is_empty(a) || is_empty(b)) return point(0);
  const bool nan = a.nan || b.nan;
  switch (op) {
    case Op::less: return truth(!nan && a.hi < b.lo, a.lo >= b.hi);
    case Op::less_equal: return truth(!nan && a.hi <= b.lo, a.lo > b.hi);
    default: return truth(is_point(a) && is_point(b) && a.lo == b.lo, a.hi < b.lo || b.hi < a.lo);
  }
}

Bound cast(const Instruction& i, const Bound& a) {
  if (i.to == DType::b8) return truth(a.lo > 0 || a.hi < 0 || is_empty(a), is_point(a) && a.lo == 0);
  if (i.to == DType::i32 && is_float(i.dtype)) {
    const auto cut = [](Wide x) { return std::trunc(std::clamp(x, k_any_int.lo, k_any_int.hi)); };
    if (is_empty(a)) return point(0);
    const Bound y{cut(a.lo), cut(a.hi), false};
    return a.nan ? united(y, point(0)) : y;
  }
  if (!is_float(i.to) || i.to == i.dtype) return a;
  if (is_point(a)) return exact(i.to, a, a, [](auto x, auto) { return x; });
  return rounded(a, i.to, 1);
}

}  // namespace

bool Bound::is_tight() const {
  if (is_empty(*this)) return true;
  return !nan && (lo == hi || hi - lo <= 1e-3L * std::max<Wide>(1, std::max(std::fabs(lo), std::fabs(hi))));
}

Bound bound_of(const Instruction& i, const Bound& a, const Bound& b, const Bound& c, int ulp) {
  switch (op_info(i.op).kind) {
    case OpKind::compare: return test(i.op, a, b);
    case OpKind::logical:
      if (i.op == Op::logical_and) return {std::min(a.lo, b.lo), std::min(a.hi, b.hi), false};
      if (i.op == Op::logical_or) return {std::max(a.lo, b.lo), std::max(a.hi, b.hi), false};
      return {1 - a.hi, 1 - a.lo, false};
    case OpKind::select: return a.lo == 1 ? b : a.hi == 0 ? c : united(b, c);
    case OpKind::cast: return cast(i, a);
    case OpKind::unary:
      if (i.op == Op::is_finite)
        return truth(!a.nan && !is_empty(a) && !std::isinf(a.lo) && !std::isinf(a.hi),
                     is_empty(a) || (a.lo == a.hi && std::isinf(a.lo)));
      return is_float(i.dtype) ? float_unary(i, a, ulp) : int_op(i, a, a);
    default: return is_float(i.dtype) ? float_binary(i, a, b) : int_op(i, a, b);
  }
}

namespace {

// By core/support/philox.h, for a certain step; otherwise it is anything in [0,1).
Bound draw_of(const Instruction& i, const Bound& step, const Element& element) {
  if (!is_point(step)) return {0, 1, false};
  const auto wide = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const std::uint64_t number = wide(static_cast<std::int64_t>(step.lo)) * wide(i.extent) + wide(element.number);
  const std::uint64_t block = number / 4;
  const auto word = [&](std::size_t k) { return static_cast<std::uint32_t>(element.key[k]); };
  const auto low = static_cast<std::uint32_t>(block), high = static_cast<std::uint32_t>(block >> 32);
  const PhiloxBlock words = philox({low, high, i.rng_stream, word(2)}, {word(0), word(1)});
  return point(static_cast<Wide>(philox_uniform(words[number % 4])));
}

}  // namespace

std::vector<Bound> bounds_of(const Expression& expression, const Element& element, int ulp) {
  std::vector<Bound> registers;
  for (const double x : element.inputs) registers.push_back(point(static_cast<Wide>(x)));
  for (const auto& [dtype, value] : expression.constants)
    registers.push_back(point(dtype == DType::f32 ? static_cast<Wide>(static_cast<float>(value)) : value));
  for (const Instruction& i : expression.instructions)
    registers.push_back(i.op == Op::iota ? point(static_cast<Wide>(element.number / i.inner % i.extent))
                        : i.op == Op::random_uniform
                            ? draw_of(i, registers[i.b], element)
                            : bound_of(i, registers[i.a], registers[i.b], registers[i.c], ulp));
  std::vector<Bound> results;
  for (const auto& result : expression.results) results.push_back(registers[result.from]);
  return results;
}

}  // namespace unroll::testing
