// SPDX-License-Identifier: Apache-2.0
// Row kernels for one instruction set.
#if defined(UNROLL_CPU_ROW_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_ROW_KERNELS_INL_H_
#undef UNROLL_CPU_ROW_KERNELS_INL_H_
#else
#define UNROLL_CPU_ROW_KERNELS_INL_H_
#endif

#include <array>

#include "backends/cpu/kernels/elementwise-inl.h"
#include "backends/cpu/kernels/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

// An operand of one row: its elements, or one value in all lanes.
template <bool repeated, class D>
struct RowOperand {
  const hn::TFromD<D>* at;
  hn::Vec<D> value;
  HWY_INLINE RowOperand(D d, const void* base, std::int64_t offset)
      : at(reinterpret_cast<const hn::TFromD<D>*>(static_cast<const std::byte*>(base) + offset)),
        value(repeated ? hn::Set(d, *at) : hn::Zero(d)) {}
  template <class How>
  HWY_INLINE hn::Vec<D> load(How how, D d, Size i) const {
    if constexpr (repeated) return value;
    else return how.load(d, at + i);
  }
};

// f(how, d, i, a, b, c) gives vector i of the result.
template <unsigned repeated, class T, class F>
HWY_INLINE void for_repeated(const Tile& t, F f) {
  const Tag<T> d;
  using D = Tag<T>;
  constexpr Size k_lanes = hn::MaxLanes(D());
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(t.rows); ++r) {
    const RowOperand<(repeated & 1) != 0, D> a(d, t.a, r * t.a_stride);
    const RowOperand<(repeated & 2) != 0, D> b(d, t.b, r * t.b_stride);
    const RowOperand<(repeated & 4) != 0, D> c(d, t.c, r * t.c_stride);
    T* to = reinterpret_cast<T*>(static_cast<std::byte*>(t.dst) + r * t.dst_stride);
    Size i = 0;
    for (; i + k_lanes <= t.n; i += k_lanes) hn::StoreU(f(Whole{}, d, i, a, b, c), d, to + i);
    if (i < t.n) First{t.n - i}.store(f(First{t.n - i}, d, i, a, b, c), d, to + i);
  }
}

template <class F, unsigned repeated, class T>
void repeated_binary(const Tile& t) {
  for_repeated<repeated, T>(t, [](auto how, auto d, Size i, const auto& a, const auto& b, const auto&) HWY_ATTR {
    return F::apply(d, a.load(how, d, i), b.load(how, d, i));
  });
}
template <class Outer, class Inner, bool inner_first, unsigned repeated, class T>
void repeated_pair(const Tile& t) {
  for_repeated<repeated, T>(t, [](auto how, auto d, Size i, const auto& a, const auto& b, const auto& c) HWY_ATTR {
    const auto inner = Inner::apply(d, a.load(how, d, i), b.load(how, d, i)), other = c.load(how, d, i);
    return inner_first ? Outer::apply(d, inner, other) : Outer::apply(d, other, inner);
  });
}

// Pieces of long rows as in kernels_reduce.cc; line(begin, n) reduces columns of one row.
template <class T, bool sum, class Line>
HWY_INLINE T reduce_row(Index n, Line line) {
  using Limits = std::numeric_limits<T>;
  constexpr Index k_line = 8192;
  constexpr T k_nothing = sum ? T{0} : Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if (n == 0) return k_nothing;
  if (n <= k_line) return line(Index{0}, n);
  using Wide = std::conditional_t<!sum, T, std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>>;
  const Index cuts = (n + k_line - 1) / k_line;
  Wide total = k_nothing;
  for (Index cut = 0; cut < cuts; ++cut) {
    const Index begin = n * cut / cuts;
    const Wide piece = static_cast<Wide>(line(begin, n * (cut + 1) / cuts - begin));
    if constexpr (sum) total += piece;
    else total = total > piece || total != total ? total : piece;
  }
  return static_cast<T>(total);
}
template <class F, class T, template <class> class From>
void row_reduce(const Tile& t) {
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(t.rows); ++r) {
    const T* x = reinterpret_cast<const T*>(static_cast<const std::byte*>(t.a) + r * t.a_stride);
    *reinterpret_cast<T*>(static_cast<std::byte*>(t.dst) + r * t.dst_stride) =
        reduce_row<T, std::is_same_v<F, Sum>>(static_cast<Index>(t.n), [=](Index begin, Index n) HWY_ATTR {
          return Reduction<F, T>::of_line(From<T>{x + begin}, n);
        });
  }
}
template <class T>
void row_sum_products(const Tile& t) {
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(t.rows); ++r) {
    const T* x = reinterpret_cast<const T*>(static_cast<const std::byte*>(t.a) + r * t.a_stride);
    const T* y = reinterpret_cast<const T*>(static_cast<const std::byte*>(t.b) + r * t.b_stride);
    *reinterpret_cast<T*>(static_cast<std::byte*>(t.dst) + r * t.dst_stride) =
        reduce_row<T, true>(static_cast<Index>(t.n), [=](Index begin, Index n) HWY_ATTR {
          return Reduction<Sum, T>::of_line(Products<T>{x + begin, y + begin}, n);
        });
  }
}

// Row 0 of dst += f(how, d, i, row) of each row, one after the other.
template <class T, class F>
HWY_INLINE void accumulate(const Tile& t, F f) {
  const Tag<T> d;
  constexpr Size k_lanes = hn::MaxLanes(Tag<T>());
  const auto rows = static_cast<std::int64_t>(t.rows);
  T* const to = static_cast<T*>(t.dst);
  Size i = 0;
  for (; i + 4 * k_lanes <= t.n; i += 4 * k_lanes) {
    auto s0 = hn::LoadU(d, to + i), s1 = hn::LoadU(d, to + i + k_lanes);
    auto s2 = hn::LoadU(d, to + i + 2 * k_lanes), s3 = hn::LoadU(d, to + i + 3 * k_lanes);
    for (std::int64_t r = 0; r < rows; ++r) {
      s0 = hn::Add(s0, f(Whole{}, d, i, r));
      s1 = hn::Add(s1, f(Whole{}, d, i + k_lanes, r));
      s2 = hn::Add(s2, f(Whole{}, d, i + 2 * k_lanes, r));
      s3 = hn::Add(s3, f(Whole{}, d, i + 3 * k_lanes, r));
    }
    hn::StoreU(s0, d, to + i);
    hn::StoreU(s1, d, to + i + k_lanes);
    hn::StoreU(s2, d, to + i + 2 * k_lanes);
    hn::StoreU(s3, d, to + i + 3 * k_lanes);
  }
  for (; i + k_lanes <= t.n; i += k_lanes) {
    auto sum = hn::LoadU(d, to + i);
    for (std::int64_t r = 0; r < rows; ++r) sum = hn::Add(sum, f(Whole{}, d, i, r));
    hn::StoreU(sum, d, to + i);
  }
  if (i == t.n) return;
  const First rest{t.n - i};
  auto sum = rest.load(d, to + i);
  for (std::int64_t r = 0; r < rows; ++r) sum = hn::Add(sum, f(rest, d, i, r));
  rest.store(sum, d, to + i);
}
template <class T>
HWY_INLINE const T* row_at(const void* base, std::int64_t offset) {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(base) + offset);
}
template <class T>
void accumulate_rows(const Tile& t) {
  accumulate<T>(t, [&](auto how, auto d, Size i, std::int64_t r) HWY_ATTR {
    return how.load(d, row_at<T>(t.a, r * t.a_stride) + i);
  });
}
template <class T>
void accumulate_products(const Tile& t) {
  accumulate<T>(t, [&](auto how, auto d, Size i, std::int64_t r) HWY_ATTR {
    return hn::Mul(how.load(d, row_at<T>(t.a, r * t.a_stride) + i), how.load(d, row_at<T>(t.b, r * t.b_stride) + i));
  });
}
template <class T>
void accumulate_scaled_products(const Tile& t) {
  accumulate<T>(t, [&](auto how, auto d, Size i, std::int64_t r) HWY_ATTR {
    const auto inner =
        hn::Mul(how.load(d, row_at<T>(t.a, r * t.a_stride) + i), hn::Set(d, *row_at<T>(t.b, r * t.b_stride)));
    return hn::Mul(how.load(d, row_at<T>(t.c, r * t.c_stride) + i), inner);
  });
}
inline Function find_accumulation(DType dtype) {
  return dtype == DType::f32   ? accumulate_rows<float>
         : dtype == DType::f64 ? accumulate_rows<double>
         : dtype == DType::i32 ? accumulate_rows<std::int32_t>
                               : nullptr;
}
inline Function find_accumulation_of_products(DType dtype) {
  return dtype == DType::f32 ? accumulate_products<float> : nullptr;
}
inline Function find_accumulation_of_scaled_products(DType dtype) {
  return dtype == DType::f32 ? accumulate_scaled_products<float> : nullptr;
}

struct RepeatedRow {
  Op op;
  Function first, second;  // for an operand that has one value per row
};
inline constexpr RepeatedRow k_repeated[] = {
    {Op::add, repeated_binary<Add, 1, float>, repeated_binary<Add, 2, float>},
    {Op::sub, repeated_binary<Sub, 1, float>, repeated_binary<Sub, 2, float>},
    {Op::mul, repeated_binary<Mul, 1, float>, repeated_binary<Mul, 2, float>},
    {Op::div, repeated_binary<Div, 1, float>, repeated_binary<Div, 2, float>},
    {Op::maximum, repeated_binary<Maximum, 1, float>, repeated_binary<Maximum, 2, float>},
    {Op::minimum, repeated_binary<Minimum, 1, float>, repeated_binary<Minimum, 2, float>},
};
inline Function find_repeated(Op op, DType dtype, unsigned repeated) {
  if (dtype != DType::f32 || (repeated != 1 && repeated != 2)) return nullptr;
  for (const RepeatedRow& row : k_repeated)
    if (row.op == op) return repeated == 1 ? row.first : row.second;
  return nullptr;
}

// [outer][inner][inner first]
#define UNROLL_REPEATED(Outer, Inner) \
  {repeated_pair<Outer, Inner, true, repeated, float>, repeated_pair<Outer, Inner, false, repeated, float>}
#define UNROLL_REPEATED_ROW(Outer) \
  {UNROLL_REPEATED(Outer, Add), UNROLL_REPEATED(Outer, Sub), UNROLL_REPEATED(Outer, Mul)}
template <unsigned repeated>
inline constexpr Function k_repeated_pairs[3][3][2] = {UNROLL_REPEATED_ROW(Add), UNROLL_REPEATED_ROW(Sub),
                                                       UNROLL_REPEATED_ROW(Mul)};
#undef UNROLL_REPEATED_ROW
#undef UNROLL_REPEATED

inline Function find_repeated_pair(Op outer, Op inner, bool inner_first, DType dtype, unsigned repeated) {
  const auto place = [](Op op) {
    return std::find(std::begin(k_paired_ops), std::end(k_paired_ops), op) - k_paired_ops;
  };
  const auto o = place(outer), i = place(inner);
  if (o == 3 || i == 3 || dtype != DType::f32) return nullptr;
  const auto at = inner_first ? 0 : 1;
  switch (repeated) {
    case 2: return k_repeated_pairs<2>[o][i][at];
    case 4: return k_repeated_pairs<4>[o][i][at];
    case 6: return k_repeated_pairs<6>[o][i][at];
    default: return nullptr;
  }
}

template <class F, class T>
inline constexpr Function k_row_reduce = row_reduce<F, T, Elements>;
inline Function find_row_reduction(Op op, DType dtype) {
  const bool sum = op == Op::reduce_sum;
  switch (dtype) {
    case DType::f32: return sum ? k_row_reduce<Sum, float> : k_row_reduce<Largest, float>;
    case DType::f64: return sum ? k_row_reduce<Sum, double> : k_row_reduce<Largest, double>;
    case DType::i32: return sum ? k_row_reduce<Sum, std::int32_t> : k_row_reduce<Largest, std::int32_t>;
    case DType::b8:
    case DType::bf16:
    case DType::f16: return nullptr;
  }
  return nullptr;
}
inline Function find_sum_of(Op op, DType dtype) {
  if (dtype != DType::f32) return nullptr;
  return op == Op::mul ? row_sum_products<float> : op == Op::neg ? row_reduce<Sum, float, Negated> : nullptr;
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
