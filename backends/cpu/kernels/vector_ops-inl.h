// SPDX-License-Identifier: Apache-2.0
// One struct per elementwise op: apply() maps vectors of one instruction set.
#if defined(UNROLL_CPU_VECTOR_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_VECTOR_OPS_INL_H_
#undef UNROLL_CPU_VECTOR_OPS_INL_H_
#else
#define UNROLL_CPU_VECTOR_OPS_INL_H_
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/half-inl.h"
#include "backends/cpu/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#define UNROLL_VECTOR_OP1(name, formula)                  \
  struct name {                                           \
    template <class D, class V>                           \
    static HWY_INLINE V apply([[maybe_unused]] D d, V x) { \
      return formula;                                     \
    }                                                     \
  }
#define UNROLL_VECTOR_OP2(name, formula)                       \
  struct name {                                                \
    template <class D, class V>                                \
    static HWY_INLINE V apply([[maybe_unused]] D d, V a, V b) { \
      return formula;                                          \
    }                                                          \
  }
#define UNROLL_VECTOR_TEST(name, formula)                         \
  struct name {                                                   \
    template <class D, class V>                                   \
    static HWY_INLINE auto apply([[maybe_unused]] D d, V a, [[maybe_unused]] V b) { \
      return formula;                                             \
    }                                                             \
  }

UNROLL_VECTOR_OP1(Neg, hn::Neg(x));
UNROLL_VECTOR_OP1(Abs, hn::Abs(x));
UNROLL_VECTOR_OP1(Sqrt, hn::Sqrt(x));
UNROLL_VECTOR_OP1(Exp, math::exp(d, x));
UNROLL_VECTOR_OP1(Expm1, math::expm1(d, x));
UNROLL_VECTOR_OP1(Log, math::log(d, x));
UNROLL_VECTOR_OP1(Log1p, math::log1p(d, x));
UNROLL_VECTOR_OP1(Tanh, math::tanh(d, x));
UNROLL_VECTOR_OP1(Sigmoid, math::sigmoid(d, x));
UNROLL_VECTOR_OP2(Add, hn::Add(a, b));
UNROLL_VECTOR_OP2(Sub, hn::Sub(a, b));
UNROLL_VECTOR_OP2(Mul, hn::Mul(a, b));
UNROLL_VECTOR_OP2(Div, hn::Div(a, b));
// Returns b if it is NaN, because no comparison holds, and a if a is. Ne() cannot test that: it is false for a NaN.
UNROLL_VECTOR_OP2(Maximum, hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b));
UNROLL_VECTOR_OP2(Minimum, hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b));
UNROLL_VECTOR_OP2(MaximumInt, hn::Max(a, b));
UNROLL_VECTOR_OP2(MinimumInt, hn::Min(a, b));
UNROLL_VECTOR_OP2(And, hn::And(a, b));
UNROLL_VECTOR_OP2(Or, hn::Or(a, b));
UNROLL_VECTOR_OP1(Not, hn::Xor(x, hn::Set(d, 1)));
UNROLL_VECTOR_TEST(Less, hn::Lt(a, b));
UNROLL_VECTOR_TEST(LessEqual, hn::Le(a, b));
UNROLL_VECTOR_TEST(Equal, hn::Eq(a, b));
UNROLL_VECTOR_TEST(LessEqualInt, hn::Not(hn::Lt(b, a)));
UNROLL_VECTOR_TEST(IsFinite, hn::IsFinite(a));
UNROLL_VECTOR_TEST(NotZero, hn::Not(hn::Eq(a, hn::Zero(d))));
#undef UNROLL_VECTOR_OP1
#undef UNROLL_VECTOR_OP2
#undef UNROLL_VECTOR_TEST

struct Sign {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    const V zero = hn::Zero(d), one = hn::Set(d, 1);
    const V y = hn::IfThenElse(hn::Lt(x, zero), hn::Neg(one), hn::IfThenElseZero(hn::Lt(zero, x), one));
    return hn::IfThenElse(hn::Eq(x, x), y, x);
  }
};

// Below 1: x + x P(x^2), above 1: 1 - e^-Q(|x|), which is exactly 1 from 4 on. Relative errors of the formulas are
// below 2^-29; the polynomials are fits of erf(x) / x - 1 and of -log(1 - erf(x)) in the maximum norm.
struct Erf {
  static constexpr float k_low[] = {0x1.06eba8p-3f,  -0x1.81273ep-2f,  0x1.ce2cf8p-4f, -0x1.b7f90ep-6f,
                                    0x1.5405b6p-8f,  -0x1.a3f718p-11f, 0x1.496a6ep-14f};
  static constexpr float k_high[] = {0x1.661ce4p-12f,  0x1.2088eap0f,  0x1.46baecp-1f,  0x1.a65344p-4f,
                                     -0x1.65cb7ap-6f, 0x1.825bp-9f, -0x1.86dd92p-13f};
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    const V one = hn::Set(d, 1), size = hn::Abs(x), t = math::at_most(d, 4.0f, size);
    const V low = hn::MulAdd(x, math::polynomial(d, hn::Mul(x, x), k_low), x);
    const V high = hn::Sub(one, math::exp(d, hn::Neg(math::polynomial(d, t, k_high))));
    return hn::IfThenElse(hn::Lt(size, one), low, hn::CopySign(high, x));
  }
};

struct RoundBf16 {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return round_bits<16>(d, x);
  }
};
struct RoundTf32 {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return round_bits<13>(d, x);
  }
};
struct RoundF16 {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return round_f16(d, x);
  }
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
