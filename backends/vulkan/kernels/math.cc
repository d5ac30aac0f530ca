// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/kernels/math.h"

#include <span>

namespace unroll::vulkan {

namespace {

constexpr float k_magic = 0x1.8p23f;  // adding it rounds to an integer in the low bits
constexpr float k_log2e = 0x1.715476p0f;
constexpr float k_ln2_high = 0x1.63p-1f, k_ln2_low = -0x1.bd0106p-13f;  // high times an exponent is exact
constexpr float k_exp_low = -104.0f, k_exp_high = 89.0f;                // beyond: exactly 0, infinity
constexpr float k_expm1_low = -30.0f;                                   // beyond: exactly -1
constexpr float k_tanh_high = 10.0f;                                    // beyond: exactly 1
constexpr float k_exp[] = {0x1p-1f, 0x1.5554b0p-3f, 0x1.555486p-5f, 0x1.1227fep-7f, 0x1.6d9908p-10f};
constexpr std::int32_t k_sqrt_half = 0x3f3504f3;
constexpr float k_tiny = 0x1p-126f, k_tiny_scale = 0x1p25f, k_tiny_exponent = 25;
constexpr float k_log1p_large = 0x1p60f;
constexpr float k_log[] = {0x1.555546p-2f,  -0x1.ffffeep-3f, 0x1.99a548p-3f,  -0x1.5562e4p-3f, 0x1.233294p-3f,
                           -0x1.fb42d6p-4f, 0x1.e65306p-4f,  -0x1.e2ecd0p-4f, 0x1.1b40e4p-4f};
constexpr std::uint32_t k_sign_bit = 0x80000000u, k_infinity = 0x7f800000u, k_nan = 0x7fc00000u;

Term polynomial(Term x, std::span<const float> coefficients) {
  Term sum = x.code->f(coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i > 0; --i) sum = sum * x + x.code->f(coefficients[i - 1]);
  return sum;
}

Term bits_of(Term x) { return x.code->as(Kind::u32, x); }
Term absolute(Term x) { return x.code->as(Kind::f32, bits_of(x) & x.code->u(~k_sign_bit)); }
Term with_sign(Term magnitude, Term sign) {
  Code& c = *sign.code;
  return c.as(Kind::f32, (bits_of(magnitude) & c.u(~k_sign_bit)) | (bits_of(sign) & c.u(k_sign_bit)));
}
// A NaN stays.
Term at_most(Term x, float high) { return x.code->select(x > x.code->f(high), x.code->f(high), x); }
Term at_least(Term x, float low) { return x.code->select(x < x.code->f(low), x.code->f(low), x); }

// 2^n for n of normal powers.
Term power(Term n) {
  Code& c = *n.code;
  return c.as(Kind::f32, (n + c.i(127)) << c.u(23));
}

// e^x = 2^n (1 + p)
struct Exponential {
  Term p, n;  // n i32
};
Exponential exponential(Term x) {
  Code& c = *x.code;
  const Term shifted = x * c.f(k_log2e) + c.f(k_magic), n = shifted - c.f(k_magic);
  const Term r = (x - n * c.f(k_ln2_high)) - n * c.f(k_ln2_low);
  const Term p = r * r * polynomial(r, k_exp) + r;
  return {p, c.as(Kind::i32, shifted) - c.as(Kind::i32, c.f(k_magic))};
}
Term scaled(const Exponential& e) {
  Code& c = *e.p.code;
  const Term half = e.n >> c.u(1);
  return (c.f(1) + e.p) * power(half) * power(e.n - half);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)), for normal x.
struct Split {
  Term m, e;  // e i32
};
Split split(Term x) {
  Code& c = *x.code;
  const Term above = c.as(Kind::i32, x) - c.i(k_sqrt_half);
  return {c.as(Kind::f32, (above & c.i((1 << 23) - 1)) + c.i(k_sqrt_half)), above >> c.u(23)};
}
// e ln2 + log(1 + f)
Term log_sum(Term e, Term f) {
  Code& c = *f.code;
  const Term square = f * f;
  const Term tail = square * f * polynomial(f, k_log) - square * c.f(0.5f);
  return e * c.f(k_ln2_high) + (f + (e * c.f(k_ln2_low) + tail));
}
// At 0, below it, at infinity and for NaN, where `argument` is what the logarithm is taken of.
Term log_edges(Term argument, Term x, Term y) {
  Code& c = *x.code;
  y = c.select(x < c.bits(Kind::f32, k_infinity), y, x);
  y = c.select(argument == c.f(0), c.bits(Kind::f32, k_infinity | k_sign_bit), y);
  return c.select(argument < c.f(0), c.bits(Kind::f32, k_nan), y);
}

}  // namespace

Term is_nan(Term x) { return (bits_of(x) & x.code->u(~k_sign_bit)) > x.code->u(k_infinity); }
Term is_finite_of(Term x) { return (bits_of(x) & x.code->u(k_infinity)) != x.code->u(k_infinity); }

Term exp_of(Term x) { return scaled(exponential(at_most(at_least(x, k_exp_low), k_exp_high))); }

Term expm1_of(Term x) {
  Code& c = *x.code;
  const Exponential e = exponential(at_most(at_least(x, k_expm1_low), k_exp_high));
  const Term half = power(e.n - c.i(1)), y = half * e.p + (half - c.f(0.5f));
  return c.select(is_nan(x), x, with_sign(y + y, x));
}

Term tanh_of(Term x) {
  Code& c = *x.code;
  const Term a = at_most(absolute(x), k_tanh_high);
  const Exponential e = exponential(a + a);
  const Term s = power(e.n), t = s * e.p + (s - c.f(1));
  return c.select(is_nan(x), x, with_sign(t / (t + c.f(2)), x));
}

Term sigmoid_of(Term x) {
  Code& c = *x.code;
  const Term z = scaled(exponential(at_least(-absolute(x), k_exp_low)));
  return c.select(x < c.f(0), z, c.f(1)) / (c.f(1) + z);
}

Term log_of(Term x) {
  Code& c = *x.code;
  const Term tiny = x < c.f(k_tiny);
  const Split s = split(c.select(tiny, x * c.f(k_tiny_scale), x));
  const Term e = c.convert(Kind::f32, s.e) - c.select(tiny, c.f(k_tiny_exponent), c.f(0));
  return log_edges(x, x, log_sum(e, s.m - c.f(1)));
}

Term log1p_of(Term x) {
  Code& c = *x.code;
  const Term u = c.f(1) + x;
  const Split s = split(u);
  const Term most = c.select(s.e < c.i(64), s.e, c.i(64)), scale = power(c.i(0) - most);
  const Term f = c.select(x < c.f(k_log1p_large), x * scale + (scale - c.f(1)), s.m - c.f(1));
  const Term y = log_edges(u, x, log_sum(c.convert(Kind::f32, s.e), f));
  return c.select(is_nan(y), y, with_sign(y, x));
}

Term round_bits(Term x, std::uint32_t dropped) {
  Code& c = *x.code;
  const Term bits = bits_of(x), unit = c.u(1u << dropped);
  const Term up = bits + c.u((1u << dropped) / 2 - 1) + ((bits >> c.u(dropped)) & c.u(1));
  return c.select(is_nan(x), x, c.as(Kind::f32, up & (c.u(0) - unit)));
}

Term round_f16_of(Term x) {
  Code& c = *x.code;
  // Below 2^-14 multiples of 2^-24.
  const Term fine = c.call(Ext::round_even, {x * c.f(0x1p24f)}) * c.f(0x1p-24f);
  const Term y = c.select(absolute(x) < c.f(0x1p-14f), fine, round_bits(x, 13));
  const Term infinity = with_sign(c.bits(Kind::f32, k_infinity), x);
  return c.select(is_nan(x), x, c.select(absolute(y) > c.f(65504.0f), infinity, y));
}

Term from_bf16(Term bits) { return bits.code->as(Kind::f32, bits << bits.code->u(16)); }

Term from_f16(Term bits) {
  Code& c = *bits.code;
  const Term sign = (bits & c.u(0x8000)) << c.u(16), rest = bits & c.u(0x7fff);
  const Term wide = (rest << c.u(13)) + c.select(rest < c.u(0x7c00), c.u((127 - 15) << 23), c.u((255 - 31) << 23));
  const Term tiny = bits_of(c.convert(Kind::f32, rest) * c.f(0x1p-24f));  // below 2^-14
  return c.as(Kind::f32, sign | c.select(rest < c.u(0x400), tiny, wide));
}

Term to_bf16(Term x) {
  Code& c = *x.code;
  const Term quiet = bits_of(x) | c.u(0x400000);
  return c.select(is_nan(x), quiet, bits_of(round_bits(x, 16))) >> c.u(16);
}

Term to_f16(Term x) {
  Code& c = *x.code;
  const Term y = absolute(round_f16_of(x)), bits = bits_of(y);
  const Term tiny = y < c.f(0x1p-14f);
  const Term multiple = c.as(Kind::u32, c.convert(Kind::i32, c.select(tiny, y, c.f(0)) * c.f(0x1p24f)));
  const Term normal = (bits - c.u((127 - 15) << 23)) >> c.u(13);
  const Term finite = c.select(tiny, multiple, normal);
  const Term edge = c.select(bits > c.u(k_infinity), c.u(0x7e00), c.u(0x7c00));
  return c.select(bits < c.u(k_infinity), finite, edge) | ((bits_of(x) & c.u(k_sign_bit)) >> c.u(16));
}

}  // namespace unroll::vulkan
