// SPDX-License-Identifier: Apache-2.0
// Products with the rows of a matrix for one instruction set.
#if defined(UNROLL_CPU_GEMM_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_GEMM_DOTS_INL_H_
#undef UNROLL_CPU_GEMM_DOTS_INL_H_
#else
#define UNROLL_CPU_GEMM_DOTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backends/cpu/kernels/targets.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Index = std::int64_t;

template <class T>
struct GemmDots {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr Index k_lanes = static_cast<Index>(hn::MaxLanes(D()));

  // c = a times the transpose of b [n, k], row by row: for few rows of a packing would cost more than the matmul.
  static void multiply(Index m, Index k, const void* a, Index a_stride, const void* b, Index b_stride,
                       Index begin, Index end, void* c, Index c_stride) {
    for (Index i = 0; i < m; ++i) {
      const T* row = static_cast<const T*>(a) + i * a_stride;
      T* to = static_cast<T*>(c) + i * c_stride;
      Index j = begin;
      for (; j + 4 <= end; j += 4) dots<4>(k, row, static_cast<const T*>(b) + j * b_stride, b_stride, to + j);
      for (; j < end; ++j) dots<1>(k, row, static_cast<const T*>(b) + j * b_stride, b_stride, to + j);
    }
  }
  template <int N>
  static HWY_INLINE void dots(Index k, const T* a, const T* b, Index b_stride, T* c) {
    const D d;
    V even[N], odd[N];
    UNROLL_FULLY for (int j = 0; j < N; ++j) even[j] = odd[j] = hn::Zero(d);
    Index i = 0;
    for (; i + 2 * k_lanes <= k; i += 2 * k_lanes) {
      const V a0 = hn::LoadU(d, a + i), a1 = hn::LoadU(d, a + i + k_lanes);
      UNROLL_FULLY for (int j = 0; j < N; ++j) {
        even[j] = hn::MulAdd(a0, hn::LoadU(d, b + j * b_stride + i), even[j]);
        odd[j] = hn::MulAdd(a1, hn::LoadU(d, b + j * b_stride + i + k_lanes), odd[j]);
      }
    }
    UNROLL_FULLY for (int j = 0; j < N; ++j) {
      T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[j], odd[j])));
      for (Index r = i; r < k; ++r) sum += a[r] * b[j * b_stride + r];
      c[j] = sum;
    }
  }
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
