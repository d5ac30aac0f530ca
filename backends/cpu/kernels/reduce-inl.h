// SPDX-License-Identifier: Apache-2.0
// Reduction loops for one instruction set.
#if defined(UNROLL_CPU_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_REDUCE_INL_H_
#undef UNROLL_CPU_REDUCE_INL_H_
#else
#define UNROLL_CPU_REDUCE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Index = std::int64_t;

struct Sum {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Add(a, b);
  }
};
// NaN in either operand propagates.
struct Largest {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromV<V>>)
      return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    else return hn::Max(a, b);
  }
};

// Elements of a line: values, negated values, or products of two.
template <class T>
struct Elements {
  const T* x;
  template <class D>
  HWY_INLINE auto load(D d, Index i) const { return hn::LoadU(d, x + i); }
  HWY_INLINE T one(Index i) const { return x[i]; }
};
template <class T>
struct Negated {
  const T* x;
  template <class D>
  HWY_INLINE auto load(D d, Index i) const { return hn::Neg(hn::LoadU(d, x + i)); }
  HWY_INLINE T one(Index i) const { return -x[i]; }
};
template <class T>
struct Products {
  const T *x, *y;
  template <class D>
  HWY_INLINE auto load(D d, Index i) const { return hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); }
  HWY_INLINE T one(Index i) const { return x[i] * y[i]; }
};

template <class F, class T>
struct Reduction {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr Index k_lanes = static_cast<Index>(hn::MaxLanes(D()));
  static constexpr int k_chains = 4;

  static HWY_INLINE T one(T a, T b) {
    const hn::CappedTag<T, 1> d;
    return hn::GetLane(F::combine(hn::Set(d, a), hn::Set(d, b)));
  }

  static void line(const void* x, Index n, void* out) {
    *static_cast<T*>(out) = of_line(Elements<T>{static_cast<const T*>(x)}, n);
  }
  template <class From>
  static HWY_INLINE T of_line(const From& from, Index n) {
    const D d;
    Index i = 0;
    T total = n < k_lanes ? from.one(i++) : long_line(d, from, n, i);
    for (; i < n; ++i) total = one(total, from.one(i));
    return total;
  }
  // Whole vectors in four chains, then lanes pairwise; i becomes the start of the remainder.
  template <class From>
  static HWY_INLINE T long_line(D d, const From& from, Index n, Index& i) {
    const Index vectors = n / k_lanes;
    const int chains = static_cast<int>(vectors < k_chains ? vectors : k_chains);
    if (chains < k_chains) {
      V sum = from.load(d, 0);
      for (i = k_lanes; i + k_lanes <= n; i += k_lanes) sum = F::combine(sum, from.load(d, i));
      return fold(d, sum);
    }
    V a = from.load(d, 0), b = from.load(d, k_lanes), c = from.load(d, 2 * k_lanes), e = from.load(d, 3 * k_lanes);
    for (i = k_chains * k_lanes; i + k_chains * k_lanes <= n; i += k_chains * k_lanes) {
      a = F::combine(a, from.load(d, i));
      b = F::combine(b, from.load(d, i + k_lanes));
      c = F::combine(c, from.load(d, i + 2 * k_lanes));
      e = F::combine(e, from.load(d, i + 3 * k_lanes));
    }
    for (; i + k_lanes <= n; i += k_lanes) a = F::combine(a, from.load(d, i));
    return fold(d, F::combine(F::combine(F::combine(a, b), c), e));
  }
  // Lanes pairwise: the first half with the second.
  template <class Worker, class W>
  static HWY_INLINE T fold(Worker, W v) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (hn::MaxLanes(Worker()) > 1) {
      const hn::Half<Worker> half;
      return fold(half, F::combine(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    } else
#endif
      return hn::GetLane(v);
  }

  static void rows(const void* const* rows, Index count, Index n, void* to_bytes) {
    constexpr Index k_together = 8;
    T* to = static_cast<T*>(to_bytes);
    Index r = 0;
    for (; r + k_together <= count; r += k_together) add<k_together>(rows + r, n, to);
    for (; r < count; ++r) add<1>(rows + r, n, to);
  }
  template <int N>
  static void add(const void* const* rows, Index n, T* to) {
    const D d;
    const T* x[N];
    for (int r = 0; r < N; ++r) x[r] = static_cast<const T*>(rows[r]);
    Index i = 0;
    for (; i + k_lanes <= n; i += k_lanes) {
      V sum = hn::LoadU(d, to + i);
      UNROLL_FULLY for (int r = 0; r < N; ++r) sum = F::combine(sum, hn::LoadU(d, x[r] + i));
      hn::StoreU(sum, d, to + i);
    }
    for (; i < n; ++i)
      for (int r = 0; r < N; ++r) to[i] = one(to[i], x[r][i]);
  }

  static constexpr ReduceKernels k_kernels{line, rows};
};

inline const ReduceKernels* find_reduction(Op op, DType dtype) {
  const bool sum = op == Op::reduce_sum;
  switch (dtype) {
    case DType::f32: return sum ? &Reduction<Sum, float>::k_kernels : &Reduction<Largest, float>::k_kernels;
    case DType::f64: return sum ? &Reduction<Sum, double>::k_kernels : &Reduction<Largest, double>::k_kernels;
    default: return sum ? &Reduction<Sum, std::int32_t>::k_kernels : &Reduction<Largest, std::int32_t>::k_kernels;
  }
}

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
