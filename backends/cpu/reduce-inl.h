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
// A NaN in either operand gives NaN.
struct Largest {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromV<V>>)
      return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    else return hn::Max(a, b);
  }
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

  static void line(const void* x_bytes, Index n, void* out) {
    const D d;
    const T* x = static_cast<const T*>(x_bytes);
    Index i = 0;
    T total;
    if (n < k_lanes) {
      total = x[i++];
    } else {
      total = long_line(d, x, n, i);
    }
    for (; i < n; ++i) total = one(total, x[i]);
    *static_cast<T*>(out) = total;
  }
  // Whole vectors in four chains, then lanes pairwise; i becomes where the rest begins.
  static HWY_INLINE T long_line(D d, const T* x, Index n, Index& i) {
    const Index vectors = n / k_lanes;
    const int chains = static_cast<int>(vectors < k_chains ? vectors : k_chains);
    V chain[k_chains];
    for (int c = 0; c < chains; ++c, i += k_lanes) chain[c] = hn::LoadU(d, x + i);
    if (chains == k_chains)
      for (; i + k_chains * k_lanes <= n; i += k_chains * k_lanes)
        UNROLL_FULLY for (int c = 0; c < k_chains; ++c)
          chain[c] = F::combine(chain[c], hn::LoadU(d, x + i + c * k_lanes));
    for (; i + k_lanes <= n; i += k_lanes) chain[0] = F::combine(chain[0], hn::LoadU(d, x + i));
    for (int c = 1; c < chains; ++c) chain[0] = F::combine(chain[0], chain[c]);
    T lanes[k_lanes];
    hn::StoreU(chain[0], d, lanes);
    for (Index half = k_lanes / 2; half > 0; half /= 2)
      for (Index k = 0; k < half; ++k) lanes[k] = one(lanes[k], lanes[k + half]);
    return lanes[0];
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
