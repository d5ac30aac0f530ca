// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log, log1p, tanh, sigmoid of vectors of f32 or f64, within 4 ulp (f32: over all finite inputs, denormal
// results included, see tests/backends/cpu/test_cpu_math.cc). NaN gives NaN.
#if defined(UNROLL_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_MATH_INL_H_
#undef UNROLL_CPU_MATH_INL_H_
#else
#define UNROLL_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE::math {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Constants;

template <>
struct Constants<float> {
  using Int = std::int32_t;
  static constexpr int k_fraction_bits = 23;
  static constexpr Int k_bias = 127;
  static constexpr float k_magic = 0x1.8p23f;  // adding it rounds to an integer in the low bits
  static constexpr float k_log2e = 0x1.715476p0f;
  static constexpr float k_ln2_high = 0x1.63p-1f, k_ln2_low = -0x1.bd0106p-13f;  // high times an exponent is exact
  static constexpr float k_exp_low = -104.0f, k_exp_high = 89.0f;  // beyond: exactly 0, infinity
  static constexpr float k_expm1_low = -30.0f;                     // beyond: exactly -1
  static constexpr float k_tanh_high = 10.0f;                      // beyond: exactly 1
  // (e^r - 1 - r) / r^2 on [-ln2 / 2, ln2 / 2], relative error of e^r - 1 below 2^-26
  static constexpr float k_exp[] = {0x1p-1f, 0x1.5554b0p-3f, 0x1.555486p-5f, 0x1.1227fep-7f, 0x1.6d9908p-10f};
  static constexpr Int k_sqrt_half = 0x3f3504f3;
  static constexpr float k_tiny = 0x1p-126f, k_tiny_scale = 0x1p25f, k_tiny_exponent = 25;
  static constexpr float k_log1p_large = 0x1p60f;
  // (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], relative error below 2^-30
  static constexpr float k_log[] = {0x1.555546p-2f,  -0x1.ffffeep-3f, 0x1.99a548p-3f,  -0x1.5562e4p-3f, 0x1.233294p-3f,
                                    -0x1.fb42d6p-4f, 0x1.e65306p-4f,  -0x1.e2ecd0p-4f, 0x1.1b40e4p-4f};
};

template <>
struct Constants<double> {
  using Int = std::int64_t;
  static constexpr int k_fraction_bits = 52;
  static constexpr Int k_bias = 1023;
  static constexpr double k_magic = 0x1.8p52;
  static constexpr double k_log2e = 0x1.71547652b82fep0;
  static constexpr double k_ln2_high = 0x1.62e42feep-1, k_ln2_low = 0x1.a39ef35793c76p-33;
  static constexpr double k_exp_low = -746.0, k_exp_high = 710.0;
  static constexpr double k_expm1_low = -60.0;
  static constexpr double k_tanh_high = 22.0;
  // relative error below 2^-55
  static constexpr double k_exp[] = {0x1.0000000000005p-1,  0x1.555555555555cp-3,  0x1.55555555520f6p-5,
                                     0x1.111111110e6ccp-7,  0x1.6c16c17f36e5cp-10, 0x1.a01a01b5dd523p-13,
                                     0x1.a019a6876e187p-16, 0x1.71dde9f580feep-19, 0x1.28a2a9fc0ce6fp-22,
                                     0x1.af76cb0c98fe3p-26};
  static constexpr Int k_sqrt_half = 0x3fe6a09e667f3bcd;
  static constexpr double k_tiny = 0x1p-1022, k_tiny_scale = 0x1p54, k_tiny_exponent = 54;
  static constexpr double k_log1p_large = 0x1p60;
  // log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)), s = f / (2 + f): P has fdlibm's coefficients
  static constexpr double k_log[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                     2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                     1.479819860511658591e-01};
};

template <class D>
using C = Constants<hn::TFromD<D>>;
template <class D>
using V = hn::Vec<D>;
template <class D>
using VI = hn::Vec<hn::RebindToSigned<D>>;

// Horner's rule.
template <class D, class T, std::size_t N>
HWY_INLINE V<D> polynomial(D d, V<D> x, const T (&coefficients)[N]) {
  V<D> sum = hn::Set(d, coefficients[N - 1]);
  UNROLL_FULLY for (std::size_t i = N - 1; i > 0; --i) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[i - 1]));
  return sum;
}

// Propagates a NaN in x. The instructions of x86 return their second operand; others return the number.
#undef UNROLL_MIN_GIVES_SECOND  // this file is read once per target
#define UNROLL_MIN_GIVES_SECOND (HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
template <class D>
HWY_INLINE V<D> at_most(D d, hn::TFromD<D> high, V<D> x) {
#if UNROLL_MIN_GIVES_SECOND
  return hn::Min(hn::Set(d, high), x);
#else
  return hn::IfThenElse(hn::Lt(hn::Set(d, high), x), hn::Set(d, high), x);
#endif
}
template <class D>
HWY_INLINE V<D> at_least(D d, hn::TFromD<D> low, V<D> x) {
#if UNROLL_MIN_GIVES_SECOND
  return hn::Max(hn::Set(d, low), x);
#else
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
#endif
}
template <class D>
HWY_INLINE V<D> clamp(D d, hn::TFromD<D> low, hn::TFromD<D> high, V<D> x) {
  return at_most(d, high, at_least(d, low, x));
}

// 2^n for n whose 2^n is normal.
template <class D>
HWY_INLINE V<D> power(D d, VI<D> n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<C<D>::k_fraction_bits>(hn::Add(n, hn::Set(di, C<D>::k_bias))));
}

// e^x = 2^n (1 + p), with p from |r| <= ln2 / 2.
template <class D>
struct Exponential {
  V<D> p;     // e^r - 1, to full relative precision
  V<D> n;     // whole
  VI<D> bits;  // n in the low bits
};
template <class D>
HWY_INLINE Exponential<D> exponential(D d, V<D> x) {
  const hn::RebindToSigned<D> di;
  const V<D> magic = hn::Set(d, C<D>::k_magic);
  const V<D> shifted = hn::MulAdd(x, hn::Set(d, C<D>::k_log2e), magic);
  const V<D> n = hn::Sub(shifted, magic);
  V<D> r = hn::NegMulAdd(n, hn::Set(d, C<D>::k_ln2_high), x);
  r = hn::NegMulAdd(n, hn::Set(d, C<D>::k_ln2_low), r);
  const V<D> p = hn::MulAdd(hn::Mul(r, r), polynomial(d, r, C<D>::k_exp), r);
  return {p, n, hn::BitCast(di, shifted)};
}
// The exponent as an integer.
template <class D>
HWY_INLINE VI<D> exponent(D d, const Exponential<D>& e) {
  const hn::RebindToSigned<D> di;
  return hn::Sub(e.bits, hn::BitCast(di, hn::Set(d, C<D>::k_magic)));
}

// 2^n (1 + p), rounded once where the result is denormal.
template <class D>
HWY_INLINE V<D> scaled(D d, const Exponential<D>& e) {
  const V<D> y = hn::Add(hn::Set(d, 1), e.p);
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4) return V<D>{_mm512_scalef_ps(y.raw, e.n.raw)};
  else return V<D>{_mm512_scalef_pd(y.raw, e.n.raw)};
#else
  const VI<D> n = exponent(d, e);
  const VI<D> half = hn::ShiftRight<1>(n);
  return hn::Mul(hn::Mul(y, power(d, half)), power(d, hn::Sub(n, half)));
#endif
}

template <class D>
HWY_INLINE V<D> exp(D d, V<D> x) {
  return scaled(d, exponential(d, clamp(d, C<D>::k_exp_low, C<D>::k_exp_high, x)));
}

// 2 (2^(n-1) p + 2^(n-1) - 1/2): halves, so that 2^n may exceed the largest number.
template <class D>
HWY_INLINE V<D> expm1(D d, V<D> x) {
  const hn::RebindToSigned<D> di;
  const auto e = exponential(d, clamp(d, C<D>::k_expm1_low, C<D>::k_exp_high, x));
  const V<D> half = power(d, hn::Sub(exponent(d, e), hn::Set(di, 1)));
  const V<D> y = hn::MulAdd(half, e.p, hn::Sub(half, hn::Set(d, hn::TFromD<D>(0.5))));
  return hn::CopySign(hn::Add(y, y), x);
}

// With t = e^(2|x|) - 1: t / (t + 2). Near zero t keeps full relative precision, so one formula suffices.
template <class D>
HWY_INLINE V<D> tanh(D d, V<D> x) {
  const hn::RebindToSigned<D> di;
  const V<D> a = at_most(d, C<D>::k_tanh_high, hn::Abs(x));
  const auto e = exponential(d, hn::Add(a, a));
  // the low bits of `bits` are n, the others are shifted out
  const VI<D> one = hn::BitCast(di, hn::Set(d, 1));
  const V<D> s = hn::BitCast(d, hn::Add(hn::ShiftLeft<C<D>::k_fraction_bits>(e.bits), one));
  const V<D> t = hn::MulAdd(s, e.p, hn::Sub(s, hn::Set(d, 1)));
  return hn::CopySign(hn::Div(t, hn::Add(t, hn::Set(d, 2))), x);
}

// With z = e^-|x|: 1 / (1 + z), or z / (1 + z) below zero; there z may be denormal.
template <class D>
HWY_INLINE V<D> sigmoid(D d, V<D> x) {
  const V<D> one = hn::Set(d, 1);
  const V<D> z = scaled(d, exponential(d, at_least(d, C<D>::k_exp_low, hn::Neg(hn::Abs(x)))));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), z, one), hn::Add(one, z));
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)), for normal x.
template <class D>
struct Split {
  V<D> m;
  VI<D> e;
};
template <class D>
HWY_INLINE Split<D> split(D d, V<D> x) {
  const hn::RebindToSigned<D> di;
  constexpr int k_bits = C<D>::k_fraction_bits;
  const VI<D> offset = hn::Set(di, C<D>::k_sqrt_half);
  const VI<D> above = hn::Sub(hn::BitCast(di, x), offset);
  const VI<D> fraction = hn::Set(di, (typename C<D>::Int{1} << k_bits) - 1);
  return {hn::BitCast(d, hn::Add(hn::And(above, fraction), offset)), hn::ShiftRight<k_bits>(above)};
}

// e ln2 + log(1 + f)
template <class D>
HWY_INLINE V<D> log_sum(D d, V<D> e, V<D> f) {
  using T = hn::TFromD<D>;
  const V<D> square = hn::Mul(f, f);
  const V<D> half_square = hn::Mul(square, hn::Set(d, T(0.5)));
  const V<D> low = hn::Mul(e, hn::Set(d, C<D>::k_ln2_low));
  V<D> tail;
  if constexpr (sizeof(T) == 4) {
    tail = hn::MulSub(hn::Mul(square, f), polynomial(d, f, C<D>::k_log), half_square);
  } else {
    const V<D> s = hn::Div(f, hn::Add(f, hn::Set(d, 2)));
    const V<D> s2 = hn::Mul(s, s);
    tail = hn::Sub(hn::Mul(s, hn::MulAdd(s2, polynomial(d, s2, C<D>::k_log), half_square)), half_square);
  }
  return hn::MulAdd(e, hn::Set(d, C<D>::k_ln2_high), hn::Add(f, hn::Add(low, tail)));
}

// Fixes log at 0, below 0, at infinity and for NaN; `argument` is its argument.
template <class D>
HWY_INLINE V<D> log_edges(D d, V<D> argument, V<D> x, V<D> y) {
  using Limits = std::numeric_limits<hn::TFromD<D>>;
  const V<D> zero = hn::Zero(d), infinity = hn::Set(d, Limits::infinity());
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x);
  y = hn::IfThenElse(hn::Eq(argument, zero), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(argument, zero), hn::Set(d, Limits::quiet_NaN()), y);
}

template <class D>
HWY_INLINE V<D> log(D d, V<D> x) {
  const auto tiny = hn::Lt(x, hn::Set(d, C<D>::k_tiny));
  const V<D> normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, C<D>::k_tiny_scale)), x);
  const Split<D> s = split(d, normal);
  const V<D> shift = hn::IfThenElseZero(tiny, hn::Set(d, C<D>::k_tiny_exponent));
  const V<D> e = hn::Sub(hn::ConvertTo(d, s.e), shift);
  return log_edges(d, x, x, log_sum(d, e, hn::Sub(s.m, hn::Set(d, 1))));
}

// 1 + x = 2^e (1 + f): e from the rounded sum, f = 2^-e x + (2^-e - 1) without its rounding error.
template <class D>
HWY_INLINE V<D> log1p(D d, V<D> x) {
  const hn::RebindToSigned<D> di;
  const V<D> one = hn::Set(d, 1);
  const V<D> u = hn::Add(one, x);
  const Split<D> s = split(d, u);
  const V<D> scale = power(d, hn::Neg(hn::Min(s.e, hn::Set(di, 64))));
  const V<D> large = hn::Set(d, C<D>::k_log1p_large);
  const V<D> f = hn::IfThenElse(hn::Lt(x, large), hn::MulAdd(x, scale, hn::Sub(scale, one)), hn::Sub(s.m, one));
  return hn::CopySign(log_edges(d, u, x, log_sum(d, hn::ConvertTo(d, s.e), f)), x);
}

}  // namespace unroll::cpu::HWY_NAMESPACE::math
HWY_AFTER_NAMESPACE();

#endif
