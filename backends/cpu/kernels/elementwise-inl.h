// SPDX-License-Identifier: Apache-2.0
// Elementwise ops for one instruction set. Common ops of training (f32, masks, i32) use vectors; rare conversions are
// plain loops, which are easier to read.
#if defined(UNROLL_CPU_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_ELEMENTWISE_INL_H_
#undef UNROLL_CPU_ELEMENTWISE_INL_H_
#else
#define UNROLL_CPU_ELEMENTWISE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/support/formats.h"
#include "backends/cpu/kernels/half-inl.h"
#include "backends/cpu/kernels/math-inl.h"
#include "backends/cpu/kernels/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Size = std::size_t;

// Access to a vector: whole, or only its first n lanes, without touching memory beyond them.
struct Whole {
  template <class D>
  HWY_INLINE auto load(D d, const hn::TFromD<D>* from) const { return hn::LoadU(d, from); }
  template <class D, class V>
  HWY_INLINE void store(V v, D d, hn::TFromD<D>* to) const { hn::StoreU(v, d, to); }
};
struct First {
  Size n;
#if HWY_TARGET == HWY_AVX3
  template <class D>
  HWY_INLINE auto load(D d, const hn::TFromD<D>* from) const { return hn::MaskedLoad(hn::FirstN(d, n), d, from); }
  template <class D, class V>
  HWY_INLINE void store(V v, D d, hn::TFromD<D>* to) const { hn::BlendedStore(v, hn::FirstN(d, n), d, to); }
#else  // elsewhere a masked load may read beyond the masked lanes
  template <class D>
  HWY_INLINE auto load(D d, const hn::TFromD<D>* from) const {
    hn::TFromD<D> buffer[hn::MaxLanes(D())] = {};
    std::memcpy(buffer, from, n * sizeof(buffer[0]));
    return hn::LoadU(d, buffer);
  }
  template <class D, class V>
  HWY_INLINE void store(V v, D d, hn::TFromD<D>* to) const {
    hn::TFromD<D> buffer[hn::MaxLanes(D())];
    hn::StoreU(v, d, buffer);
    std::memcpy(to, buffer, n * sizeof(buffer[0]));
  }
#endif
};

using Tile = Elementwise::Tile;

// Calls f(to, from...) for the rows of a tile. Rows that are contiguous in all operands are joined.
template <class To, class... From, class F, Size... k>
HWY_INLINE void for_rows(const Tile& t, F f, std::index_sequence<k...>) {
  const void* const from[] = {t.a, t.b, t.c};
  const std::int64_t stride[] = {t.a_stride, t.b_stride, t.c_stride};
  const auto row_bytes = [&](Size size) { return static_cast<std::int64_t>(t.n * size); };
  const bool joined =
      t.rows > 1 && t.dst_stride == row_bytes(sizeof(To)) && ((stride[k] == row_bytes(sizeof(From))) && ...);
  const std::int64_t rows = joined ? 1 : static_cast<std::int64_t>(t.rows);
  const Size n = joined ? t.n * t.rows : t.n;
  for (std::int64_t r = 0; r < rows; ++r)
    f(n, reinterpret_cast<To*>(static_cast<std::byte*>(t.dst) + r * t.dst_stride),
      reinterpret_cast<const From*>(static_cast<const std::byte*>(from[k]) + r * stride[k])...);
}

// Calls f(how, to + i, from + i...) for the vectors of d in a tile.
template <class To, class... From, class D, class F>
HWY_INLINE void map(D, const Tile& t, F f) {
  for_rows<To, From...>(
      t,
      [=](Size n, To* to, const From*... from) HWY_ATTR {
        constexpr Size k_lanes = hn::MaxLanes(D());
        Size i = 0;
        for (; i + k_lanes <= n; i += k_lanes) f(Whole{}, to + i, (from + i)...);
        if (i < n) f(First{n - i}, to + i, (from + i)...);
      },
      std::index_sequence_for<From...>());
}

// ---- tiles ----

template <class T>
using Tag = hn::ScalableTag<T>;

template <class F, class T>
void unary(const Tile& t) {
  const Tag<T> d;
  map<T, T>(d, t, [=](auto how, T* to, const T* x) HWY_ATTR { how.store(F::apply(d, how.load(d, x)), d, to); });
}

template <class F, class T>
void binary(const Tile& t) {
  const Tag<T> d;
  map<T, T, T>(d, t, [=](auto how, T* to, const T* x, const T* y) HWY_ATTR {
    how.store(F::apply(d, how.load(d, x), how.load(d, y)), d, to);
  });
}

// Each of the two ops rounds: the compiler must not contract them (-ffp-contract=off).
template <class Outer, class Inner, bool inner_first, class T>
void pair(const Tile& t) {
  const Tag<T> d;
  map<T, T, T, T>(d, t, [=](auto how, T* to, const T* x, const T* y, const T* z) HWY_ATTR {
    const auto inner = Inner::apply(d, how.load(d, x), how.load(d, y)), other = how.load(d, z);
    how.store(inner_first ? Outer::apply(d, inner, other) : Outer::apply(d, other, inner), d, to);
  });
}

// Converts four-byte lanes to bytes that hold 0 or 1.
template <class How, class D, class M>
HWY_INLINE void store_truth(How how, D d, M mask, std::uint8_t* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto ones = hn::And(hn::BitCast(di, hn::VecFromMask(d, mask)), hn::Set(di, 1));
  how.store(hn::DemoteTo(d8, ones), d8, to);
}
template <class How, class D>
HWY_INLINE auto load_truth(How how, D d, const std::uint8_t* from) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint8_t, D> d8;
  return hn::RebindMask(d, hn::Ne(hn::PromoteTo(di, how.load(d8, from)), hn::Zero(di)));
}

// Tests of one operand pass it twice.
template <class F, class T>
void test(const Tile& t) {
  const Tag<T> d;
  map<std::uint8_t, T, T>(d, t, [=](auto how, std::uint8_t* to, const T* x, const T* y) HWY_ATTR {
    store_truth(how, d, F::apply(d, how.load(d, x), how.load(d, y)), to);
  });
}

template <class T>
void select(const Tile& t) {
  const Tag<T> d;
  map<T, std::uint8_t, T, T>(d, t, [=](auto how, T* to, const std::uint8_t* c, const T* x, const T* y) HWY_ATTR {
    how.store(hn::IfThenElse(load_truth(how, d, c), how.load(d, x), how.load(d, y)), d, to);
  });
}

// ---- plain loops ----

template <class To, class... From, class F>
HWY_INLINE void loop(const Tile& t, F f) {
  for_rows<To, From...>(
      t,
      [=](Size n, To* to, const From*... from) {
        for (Size i = 0; i < n; ++i) to[i] = f(from[i]...);
      },
      std::index_sequence_for<From...>());
}
#define UNROLL_LOOP(name, formula)                                            \
  template <class T>                                                          \
  void name(const Tile& t) {                                                  \
    loop<std::uint8_t, T, T>(t, [](T x, T y) { return std::uint8_t{formula}; }); \
  }
UNROLL_LOOP(loop_less, x < y)
UNROLL_LOOP(loop_less_equal, x <= y)
UNROLL_LOOP(loop_equal, x == y)
#undef UNROLL_LOOP

inline void loop_is_finite(const Tile& t) {
  constexpr double k_most = std::numeric_limits<double>::max();
  loop<std::uint8_t, double>(t, [](double x) { return std::uint8_t{std::fabs(x) <= k_most}; });
}
inline void loop_erf(const Tile& t) {
  loop<double, double>(t, [](double x) { return std::erf(x); });
}
template <class T>
void loop_select(const Tile& t) {
  loop<T, std::uint8_t, T, T>(t, [](std::uint8_t c, T x, T y) { return c ? x : y; });
}
// Truncating division; by zero gives 0; the smallest number over -1 wraps.
inline void loop_div(const Tile& t) {
  loop<std::int32_t, std::int32_t, std::int32_t>(t, [](std::int32_t x, std::int32_t y) {
    return y == 0 ? 0 : static_cast<std::int32_t>(std::int64_t{x} / y);
  });
}

// Float to i32 truncates, saturates and maps NaN to 0; every value except 0 is true. Conversion to 16 bits rounds once.
template <class To, class From>
HWY_INLINE To converted(From x) {
  if constexpr (std::is_class_v<From>) {
    return converted<To>(to_float(x));
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return to_bf16(x);
  } else if constexpr (std::is_same_v<To, F16>) {
    return to_f16(x);
  } else if constexpr (std::is_same_v<To, std::uint8_t>) {
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
void loop_cast(const Tile& t) {
  loop<To, From>(t, [](From x) { return converted<To>(x); });
}
// The frequent casts.
template <class T>
void cast_from_truth(const Tile& t) {
  const Tag<T> d;
  map<T, std::uint8_t>(d, t, [=](auto how, T* to, const std::uint8_t* x) HWY_ATTR {
    how.store(hn::IfThenElseZero(load_truth(how, d, x), hn::Set(d, 1)), d, to);
  });
}
inline void cast_int_to_float(const Tile& t) {
  const Tag<float> d;
  const Tag<std::int32_t> di;
  map<float, std::int32_t>(d, t, [=](auto how, float* to, const std::int32_t* x) HWY_ATTR {
    how.store(hn::ConvertTo(d, how.load(di, x)), d, to);
  });
}

// Loads and stores of 16-bit values; computation is in f32.
template <class As>
void widen(const Tile& t) {
  const Tag<float> d;
  const hn::Rebind<std::uint16_t, Tag<float>> d16;
  map<float, std::uint16_t>(d, t, [=](auto how, float* to, const std::uint16_t* x) HWY_ATTR {
    how.store(As::widened(d, how.load(d16, x)), d, to);
  });
}
template <class As>
void narrow(const Tile& t) {
  const Tag<float> d;
  const hn::Rebind<std::uint16_t, Tag<float>> d16;
  map<std::uint16_t, float>(d, t, [=](auto how, std::uint16_t* to, const float* x) HWY_ATTR {
    how.store(As::narrowed(d, how.load(d, x)), d16, to);
  });
}

template <const Format& format>
void loop_round(const Tile& t) {
  loop<double, double>(t, [](double x) { return round_to(format, x); });
}

// ---- tables ----

using Function = Elementwise::TileFunction;
struct Row {
  Op op;
  Function f32, f64, i32, b8;
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
    {Op::erf, unary<Erf, float>, loop_erf, nullptr, nullptr},
    {Op::round_bf16, unary<RoundBf16, float>, loop_round<k_bf16>, nullptr, nullptr},
    {Op::round_f16, unary<RoundF16, float>, loop_round<k_f16>, nullptr, nullptr},
    {Op::round_tf32, unary<RoundTf32, float>, loop_round<k_tf32>, nullptr, nullptr},
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
// [from][to], in the order of DType; the diagonal is never used.
inline constexpr Function k_casts[k_n_dtypes][k_n_dtypes] = {
    {nullptr, loop_cast<double, float>, loop_cast<std::int32_t, float>, test<NotZero, float>, narrow<Bf16Lanes>,
     narrow<F16Lanes>},
    {loop_cast<float, double>, nullptr, loop_cast<std::int32_t, double>, loop_cast<std::uint8_t, double>,
     loop_cast<Bf16, double>, loop_cast<F16, double>},
    {cast_int_to_float, loop_cast<double, std::int32_t>, nullptr, test<NotZero, std::int32_t>,
     loop_cast<Bf16, std::int32_t>, loop_cast<F16, std::int32_t>},
    {cast_from_truth<float>, loop_cast<double, std::uint8_t>, cast_from_truth<std::int32_t>, nullptr,
     loop_cast<Bf16, std::uint8_t>, loop_cast<F16, std::uint8_t>},
    {widen<Bf16Lanes>, loop_cast<double, Bf16>, loop_cast<std::int32_t, Bf16>, loop_cast<std::uint8_t, Bf16>, nullptr,
     loop_cast<F16, Bf16>},
    {widen<F16Lanes>, loop_cast<double, F16>, loop_cast<std::int32_t, F16>, loop_cast<std::uint8_t, F16>,
     loop_cast<Bf16, F16>, nullptr},
};

inline constexpr Op k_paired_ops[] = {Op::add, Op::sub, Op::mul};
template <class Outer>  // [inner][the inner result is the second operand]
inline constexpr Function k_pairs_of[3][2] = {
    {pair<Outer, Add, true, float>, pair<Outer, Add, false, float>},
    {pair<Outer, Sub, true, float>, pair<Outer, Sub, false, float>},
    {pair<Outer, Mul, true, float>, pair<Outer, Mul, false, float>},
};
inline constexpr const Function (*k_pairs[3])[2] = {k_pairs_of<Add>, k_pairs_of<Sub>, k_pairs_of<Mul>};

inline Function find_pair(Op outer, Op inner, bool inner_first, DType dtype) {
  const auto place = [](Op op) {
    return std::find(std::begin(k_paired_ops), std::end(k_paired_ops), op) - k_paired_ops;
  };
  const auto o = place(outer), i = place(inner);
  return o == 3 || i == 3 || dtype != DType::f32 ? nullptr : k_pairs[o][i][inner_first ? 0 : 1];
}

inline Function find_tile(Op op, DType dtype, DType to) {
  if (op == Op::cast) return k_casts[static_cast<int>(dtype)][static_cast<int>(to)];
  if (is_half(dtype)) return op == Op::select ? loop_select<std::uint16_t> : nullptr;
  for (const Row& row : k_ops) {
    if (row.op != op) continue;
    switch (dtype) {
      case DType::f32: return row.f32;
      case DType::f64: return row.f64;
      case DType::i32: return row.i32;
      case DType::b8: return row.b8;
      default: return nullptr;
    }
  }
  return nullptr;
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
