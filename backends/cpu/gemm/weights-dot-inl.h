// SPDX-License-Identifier: Apache-2.0
// Matmuls of few rows with int8 weights in integer arithmetic, for processors with dot products of four bytes (VNNI).
// Weights stay bytes: no instruction converts them to floats. An activation becomes 16 bits, in two bytes: q = 256 high
// + low, a = scale q. Weights are stored plus 128, because one factor must be unsigned:
//   sum of w q = 256 sum of (w + 128) high + sum of (w + 128) low - 128 sum of q
// Sums over k_block activations fit in 32 bits: 127 * 32639 * 512 < 2^31; sums of blocks are f32. Built for AVX-512
// only, so included once; Highway 1.0 has no target for it, so the processor is checked at run time.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/gemm/weights-inl.h"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR_AVX3 ",avx512vnni")
namespace unroll::cpu::HWY_NAMESPACE {

struct DotInt8 {
  using D32 = hn::RebindToSigned<D>;
  using V32 = hn::Vec<D32>;
  static constexpr Index k_columns = Stored<AsInt8>::k_columns;
  static constexpr Index k_block = 512;
  static constexpr Index k_quad = 4;         // adjacent weights, for consecutive activations
  static constexpr float k_most = 32639;     // 127 * 256 + 127
  static constexpr float k_least = 1e-33f;   // a block of smaller activations becomes zeros
  static constexpr int k_rows = 4;

  // A block of activations in bytes.
  struct Row {
    alignas(64) std::int8_t high[k_block];
    alignas(64) std::int8_t low[k_block];
    std::int32_t sum;
    float scale;  // NaN if an activation is not finite, so that the result is NaN
  };

  static HWY_INLINE V load_activations(const float* a, Index left) {
    const D d;
    if (left >= k_lanes) return hn::LoadU(d, a);
    float padded[k_lanes] = {};
    std::copy_n(a, left, padded);
    return hn::LoadU(d, padded);
  }

  static void quantise(const float* a, Index k, Row& row) {
    const D d;
    const D32 d32;
    const hn::Rebind<std::int8_t, D> d8;
    V most = hn::Zero(d), not_finite = hn::Zero(d);
    for (Index i = 0; i < k; i += k_lanes) {
      const V x = load_activations(a + i, k - i);
      most = hn::Max(most, hn::Abs(x));
      not_finite = hn::MulAdd(x, hn::Zero(d), not_finite);
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(d, most));
    const bool zeros = !(largest >= k_least);
    row.scale = (zeros ? 0 : largest / k_most) + hn::GetLane(hn::SumOfLanes(d, not_finite));
    const V inverse = hn::Set(d, zeros ? 0 : k_most / largest);
    V32 sum = hn::Zero(d32);
    for (Index i = 0; i < k; i += k_lanes) {
      const V32 q = hn::NearestInt(hn::Mul(load_activations(a + i, k - i), inverse));
      const V32 low = hn::ShiftRight<24>(hn::ShiftLeft<24>(q));
      hn::StoreU(hn::DemoteTo(d8, low), d8, row.low + i);
      hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<8>(hn::Sub(q, low))), d8, row.high + i);
      sum = hn::Add(sum, q);
    }
    row.sum = hn::GetLane(hn::SumOfLanes(d32, sum));
  }

  // [k / 4][columns][4] weights, from quad `first` of the panel on.
  struct Tile {
    Index quads;
    const Row* rows;
    const std::uint8_t* b;
    const float* scales;
    float* c;
    Index c_stride;
    Index columns;  // valid columns of c
    bool adds;      // adds to c: not the first block
  };

  static HWY_INLINE V32 four(const std::int8_t* bytes) {
    std::int32_t all;
    std::memcpy(&all, bytes, sizeof all);
    return hn::Set(D32(), all);
  }
  static HWY_INLINE V32 dot(V32 sum, V32 weights, V32 activations) {
    return V32{_mm512_dpbusd_epi32(sum.raw, weights.raw, activations.raw)};
  }

  template <int R, int N>
  static HWY_NOINLINE void tile(const Tile& t) {
    const D d;
    const D32 d32;
    V32 high[R][N], low[R][N];
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < N; ++j) high[i][j] = low[i][j] = hn::Zero(d32);
    const std::uint8_t* b = t.b;
    for (Index k = 0; k < t.quads * k_quad; k += k_quad, b += k_quad * k_columns)
      UNROLL_FULLY for (int j = 0; j < N; ++j) {
        const V32 weights = hn::LoadU(d32, reinterpret_cast<const std::int32_t*>(b + j * k_quad * k_lanes));
        UNROLL_FULLY for (int i = 0; i < R; ++i) {
          high[i][j] = dot(high[i][j], weights, four(t.rows[i].high + k));
          low[i][j] = dot(low[i][j], weights, four(t.rows[i].low + k));
        }
      }
    UNROLL_FULLY for (int i = 0; i < R; ++i) {
      const V32 offset = hn::ShiftLeft<7>(hn::Set(d32, t.rows[i].sum));
      const V scale = hn::Set(d, t.rows[i].scale);
      UNROLL_FULLY for (int j = 0; j < N; ++j) {
        const V32 sum = hn::Sub(hn::Add(hn::ShiftLeft<8>(high[i][j]), low[i][j]), offset);
        const V product = hn::Mul(hn::ConvertTo(d, sum), hn::Mul(scale, hn::LoadU(d, t.scales + j * k_lanes)));
        float* const c = t.c + i * t.c_stride + j * k_lanes;
        const Index left = t.columns - j * k_lanes;
        const V before = t.adds ? load_activations(c, std::max<Index>(left, 0)) : hn::Zero(d);
        Stored<AsInt8>::store_columns(hn::Add(before, product), c, left);
      }
    }
  }

  // Computes all columns of a panel for R rows, in groups of as many vectors as the registers hold.
  template <int R>
  static void rows_of_panel(Tile t) {
    constexpr int k_group = R == 1 ? 8 : R == 4 ? 2 : 4;
    for (Index left = std::min(t.columns, k_columns); left > 0; left -= k_group * k_lanes) {
      if (left > 2 * k_lanes) tile<R, k_group>(t);
      else tile<R, 2>(t);
      t.b += k_quad * k_group * k_lanes;
      t.scales += k_group * k_lanes;
      t.c += k_group * k_lanes;
      t.columns -= k_group * k_lanes;
    }
  }

  static void panels(int rows, Tile t) {
    switch (rows) {
      case 1: return rows_of_panel<1>(t);
      case 2: return rows_of_panel<2>(t);
      case 3: return rows_of_panel<3>(t);
      default: return rows_of_panel<4>(t);
    }
  }

  static Index quads(Index k) { return (k + k_quad - 1) / k_quad; }

  static void multiply(Index m, Index n, Index k, const float* a, Index a_stride, const void* packed,
                       const float* scales, Index begin, Index end, float* c, Index c_stride) {
    Row rows[k_rows];
    for (Index i = 0; i < m; i += k_rows) {
      const int some = static_cast<int>(std::min<Index>(m - i, k_rows));
      for (Index first = 0; first < k; first += k_block) {
        const Index depth = std::min(k - first, k_block);
        for (int r = 0; r < some; ++r) quantise(a + (i + r) * a_stride + first, depth, rows[r]);
        for (Index p = begin; p < end; ++p) {
          const auto* const panel = static_cast<const std::uint8_t*>(packed) + p * quads(k) * k_quad * k_columns;
          panels(some, {quads(depth), rows, panel + first * k_columns, scales + p * k_columns,
                        c + i * c_stride + p * k_columns, c_stride, n - p * k_columns, first > 0});
        }
      }
    }
  }

  static void pack(const float* b, Index stride, bool transposed, Index k, Index n, void* packed, float* scales) {
    for (Index column = 0; column < n; ++column) {
      scales[column] = Stored<AsInt8>::scale_of(b, stride, transposed, k, column);
      auto* const to = static_cast<std::uint8_t*>(packed) + column / k_columns * quads(k) * k_quad * k_columns +
                       column % k_columns * k_quad;
      for (Index row = 0; row < k; ++row)
        to[row / k_quad * k_quad * k_columns + row % k_quad] = static_cast<std::uint8_t>(
            128 + AsInt8::store(Stored<AsInt8>::at(b, stride, transposed, row, column), scales[column]));
    }
  }

  static constexpr WeightKernels k_kernels{"int8, products of bytes", k_columns, 1, k_quad, true, pack, multiply};
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
