// SPDX-License-Identifier: Apache-2.0
// Elementwise ops for one instruction set. What training runs (f32, masks, i32) is vectors; rare conversions are plain
// loops, which read the same.
#if defined(UNROLL_CPU_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_ELEMENTWISE_INL_H_
#undef UNROLL_CPU_ELEMENTWISE_INL_H_
#else
#define UNROLL_CPU_ELEMENTWISE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#include "backends/common/formats.h"
#include "backends/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Size = std::size_t;

// Calls f(dst + i, from + i...) for whole vectors of d. A short end goes through buffers: nothing beyond n is touched.
template <class D, class To, class F, class... From>
HWY_INLINE void map(D, To* dst, Size n, F f, const From*... from) {
  constexpr Size k_lanes = hn::MaxLanes(D());
  Size i = 0;
  for (; i + k_lanes <= n; i += k_lanes) f(dst + i, (from + i)...);
  if (i == n) return;
  const Size left = n - i;
  To end[k_lanes];
  std::tuple<std::array<From, k_lanes>...> starts{};
  std::apply(
      [&](auto&... start) HWY_ATTR {
        (std::memcpy(start.data(), from + i, left * sizeof(From)), ...);
        f(end, start.data()...);
      },
      starts);
  std::memcpy(dst + i, end, left * sizeof(To));
}

// ---- ops on vectors ----

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
// b when it is NaN, because no comparison holds; a when it is. Ne() cannot tell: it is false for a NaN.
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

// Keeps all but the last `dropped` of 23 mantissa bits, to nearest, ties to even: adding to the bits carries into the
// exponent, and beyond the largest number into infinity.
template <int dropped, class D, class V>
HWY_INLINE V round_bits(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<dropped>(bits), hn::Set(du, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(du, (1u << (dropped - 1)) - 1)));
  const auto kept = hn::BitCast(d, hn::And(up, hn::Set(du, ~((1u << dropped) - 1))));
  return hn::IfThenElse(hn::IsNaN(x), x, kept);
}
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
    const V size = hn::Abs(x), half = hn::Set(d, 0.5f);
    const V small = hn::Sub(hn::Add(size, half), half);  // below 2^-14 multiples of 2^-24, the last bit of 0.5
    V y = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0x1p-14f)), small, round_bits<13>(d, size));
    y = hn::IfThenElse(hn::Gt(y, hn::Set(d, 65504.0f)), hn::Inf(d), y);
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
  }
};

// ---- tiles ----

template <class T>
using Tag = hn::ScalableTag<T>;

template <class F, class T>
void unary(void* dst, const void* a, const void*, const void*, Size n) {
  const Tag<T> d;
  map(d, static_cast<T*>(dst), n,
      [=](T* to, const T* x) HWY_ATTR { hn::StoreU(F::apply(d, hn::LoadU(d, x)), d, to); }, static_cast<const T*>(a));
}

template <class F, class T>
void binary(void* dst, const void* a, const void* b, const void*, Size n) {
  const Tag<T> d;
  map(d, static_cast<T*>(dst), n,
      [=](T* to, const T* x, const T* y) HWY_ATTR {
        hn::StoreU(F::apply(d, hn::LoadU(d, x), hn::LoadU(d, y)), d, to);
      },
      static_cast<const T*>(a), static_cast<const T*>(b));
}

// Four-byte lanes to bytes that hold 0 or 1.
template <class D, class M>
HWY_INLINE void store_truth(D d, M mask, std::uint8_t* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto ones = hn::And(hn::BitCast(di, hn::VecFromMask(d, mask)), hn::Set(di, 1));
  hn::StoreU(hn::DemoteTo(d8, ones), d8, to);
}
template <class D>
HWY_INLINE auto load_truth(D d, const std::uint8_t* from) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> d8;
  return hn::RebindMask(d, hn::Ne(hn::PromoteTo(di, hn::LoadU(d8, from)), hn::Zero(di)));
}

// One operand tests take it twice.
template <class F, class T>
void test(void* dst, const void* a, const void* b, const void*, Size n) {
  const Tag<T> d;
  map(d, static_cast<std::uint8_t*>(dst), n,
      [=](std::uint8_t* to, const T* x, const T* y) HWY_ATTR {
        store_truth(d, F::apply(d, hn::LoadU(d, x), hn::LoadU(d, y)), to);
      },
      static_cast<const T*>(a), static_cast<const T*>(b));
}

template <class T>
void select(void* dst, const void* condition, const void* a, const void* b, Size n) {
  const Tag<T> d;
  map(d, static_cast<T*>(dst), n,
      [=](T* to, const std::uint8_t* c, const T* x, const T* y) HWY_ATTR {
        hn::StoreU(hn::IfThenElse(load_truth(d, c), hn::LoadU(d, x), hn::LoadU(d, y)), d, to);
      },
      static_cast<const std::uint8_t*>(condition), static_cast<const T*>(a), static_cast<const T*>(b));
}

// ---- plain loops ----

template <class To, class From, class F>
HWY_INLINE void loop1(void* dst, const void* a, Size n, F f) {
  const From* from = static_cast<const From*>(a);
  To* to = static_cast<To*>(dst);
  for (Size i = 0; i < n; ++i) to[i] = f(from[i]);
}
template <class To, class From, class F>
HWY_INLINE void loop2(void* dst, const void* a, const void* b, Size n, F f) {
  const From *x = static_cast<const From*>(a), *y = static_cast<const From*>(b);
  To* to = static_cast<To*>(dst);
  for (Size i = 0; i < n; ++i) to[i] = f(x[i], y[i]);
}
#define UNROLL_LOOP(name, formula)                                             \
  template <class T>                                                           \
  void name(void* dst, const void* a, const void* b, const void*, Size n) {    \
    loop2<std::uint8_t, T>(dst, a, b, n, [](T x, T y) { return std::uint8_t{formula}; }); \
  }
UNROLL_LOOP(loop_less, x < y)
UNROLL_LOOP(loop_less_equal, x <= y)
UNROLL_LOOP(loop_equal, x == y)
#undef UNROLL_LOOP

inline void loop_is_finite(void* dst, const void* a, const void*, const void*, Size n) {
  constexpr double k_most = std::numeric_limits<double>::max();
  loop1<std::uint8_t, double>(dst, a, n, [](double x) { return std::uint8_t{std::fabs(x) <= k_most}; });
}
template <class T>
void loop_select(void* dst, const void* condition, const void* a, const void* b, Size n) {
  const auto* c = static_cast<const std::uint8_t*>(condition);
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  T* to = static_cast<T*>(dst);
  for (Size i = 0; i < n; ++i) to[i] = c[i] ? x[i] : y[i];
}
// Truncated; by zero gives 0; the smallest number over -1 wraps.
inline void loop_div(void* dst, const void* a, const void* b, const void*, Size n) {
  loop2<std::int32_t, std::int32_t>(dst, a, b, n, [](std::int32_t x, std::int32_t y) {
    return y == 0 ? 0 : static_cast<std::int32_t>(std::int64_t{x} / y);
  });
}

// Float to i32 truncates, saturates and takes NaN to 0; anything but 0 is true.
template <class To, class From>
HWY_INLINE To converted(From x) {
  if constexpr (std::is_same_v<To, std::uint8_t>) {
    return x != From{0};
  } else if constexpr (std::is_same_v<To, std::int32_t> && std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<std::int32_t>;
    const double wide = x;
    return wide != wide ? 0 : static_cast<To>(std::clamp(wide, double{Limits::min()}, double{Limits::max()}));
  } else {
    return static_cast<To>(x);
  }
}
template <class To, class From>
void loop_cast(void* dst, const void* a, const void*, const void*, Size n) {
  loop1<To, From>(dst, a, n, [](From x) { return converted<To>(x); });
}
// The frequent ones.
template <class T>
void cast_from_truth(void* dst, const void* a, const void*, const void*, Size n) {
  const Tag<T> d;
  map(d, static_cast<T*>(dst), n,
      [=](T* to, const std::uint8_t* x) HWY_ATTR {
        hn::StoreU(hn::IfThenElseZero(load_truth(d, x), hn::Set(d, 1)), d, to);
      },
      static_cast<const std::uint8_t*>(a));
}
inline void cast_int_to_float(void* dst, const void* a, const void*, const void*, Size n) {
  const Tag<float> d;
  const Tag<std::int32_t> di;
  map(d, static_cast<float*>(dst), n,
      [=](float* to, const std::int32_t* x) HWY_ATTR { hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, x)), d, to); },
      static_cast<const std::int32_t*>(a));
}

template <const common::Format& format>
void loop_round(void* dst, const void* a, const void*, const void*, Size n) {
  for (Size i = 0; i < n; ++i)
    static_cast<double*>(dst)[i] = common::round_to(format, static_cast<const double*>(a)[i]);
}

// ---- tables ----

using Tile = Elementwise::TileFunction;
struct Row {
  Op op;
  Tile f32, f64, i32, b8;
};
inline constexpr Row k_ops[] = {
    {Op::neg, unary<Neg, float>, unary<Neg, double>, unary<Neg, std::int32_t>, nullptr},
    {Op::abs, unary<Abs, float>, unary<Abs, double>, unary<Abs, std::int32_t>, nullptr},
    {Op::sign, unary<Sign, float>, unary<Sign, double>, unary<Sign, std::int32_t>, nullptr},
    {Op::exp, unary<Exp, float>, unary<Exp, double>, nullptr, nullptr},
    {Op::expm1, unary<Expm1, float>, unary<Expm1, double>, nullptr, nullptr},
    {Op::log, unary<Log, float>, unary<Log, double>, nullptr, nullptr},
    {Op::log1p, unary<Log1p, float>, unary<Log1p, double>, nullptr, nullptr},
    {Op::sqrt, unary<Sqrt, float>, unary<Sqrt, double>, nullptr, nullptr},
    {Op::tanh, unary<Tanh, float>, unary<Tanh, double>, nullptr, nullptr},
    {Op::sigmoid, unary<Sigmoid, float>, unary<Sigmoid, double>, nullptr, nullptr},
    {Op::round_bf16, unary<RoundBf16, float>, loop_round<common::k_bf16>, nullptr, nullptr},
    {Op::round_f16, unary<RoundF16, float>, loop_round<common::k_f16>, nullptr, nullptr},
    {Op::round_tf32, unary<RoundTf32, float>, loop_round<common::k_tf32>, nullptr, nullptr},
    {Op::is_finite, test<IsFinite, float>, loop_is_finite, nullptr, nullptr},
    {Op::add, binary<Add, float>, binary<Add, double>, binary<Add, std::int32_t>, nullptr},
    {Op::sub, binary<Sub, float>, binary<Sub, double>, binary<Sub, std::int32_t>, nullptr},
    {Op::mul, binary<Mul, float>, binary<Mul, double>, binary<Mul, std::int32_t>, nullptr},
    {Op::div, binary<Div, float>, binary<Div, double>, loop_div, nullptr},
    {Op::maximum, binary<Maximum, float>, binary<Maximum, double>, binary<MaximumInt, std::int32_t>, nullptr},
    {Op::minimum, binary<Minimum, float>, binary<Minimum, double>, binary<MinimumInt, std::int32_t>, nullptr},
    {Op::less, test<Less, float>, loop_less<double>, test<Less, std::int32_t>, loop_less<std::uint8_t>},
    {Op::less_equal, test<LessEqual, float>, loop_less_equal<double>, test<LessEqualInt, std::int32_t>,
     loop_less_equal<std::uint8_t>},
    {Op::equal, test<Equal, float>, loop_equal<double>, test<Equal, std::int32_t>, loop_equal<std::uint8_t>},
    {Op::logical_and, nullptr, nullptr, nullptr, binary<And, std::uint8_t>},
    {Op::logical_or, nullptr, nullptr, nullptr, binary<Or, std::uint8_t>},
    {Op::logical_not, nullptr, nullptr, nullptr, unary<Not, std::uint8_t>},
    {Op::select, select<float>, loop_select<double>, select<std::int32_t>, loop_select<std::uint8_t>},
};
// [from][to], in the order of DType; the diagonal is never asked for.
inline constexpr Tile k_casts[k_n_dtypes][k_n_dtypes] = {
    {nullptr, loop_cast<double, float>, loop_cast<std::int32_t, float>, test<NotZero, float>},
    {loop_cast<float, double>, nullptr, loop_cast<std::int32_t, double>, loop_cast<std::uint8_t, double>},
    {cast_int_to_float, loop_cast<double, std::int32_t>, nullptr, test<NotZero, std::int32_t>},
    {cast_from_truth<float>, loop_cast<double, std::uint8_t>, cast_from_truth<std::int32_t>, nullptr},
};

inline Tile find_tile(Op op, DType dtype, DType to) {
  if (op == Op::cast) return k_casts[static_cast<int>(dtype)][static_cast<int>(to)];
  for (const Row& row : k_ops) {
    if (row.op != op) continue;
    switch (dtype) {
      case DType::f32: return row.f32;
      case DType::f64: return row.f64;
      case DType::i32: return row.i32;
      case DType::b8: return row.b8;
    }
  }
  return nullptr;
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
