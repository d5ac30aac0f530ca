// SPDX-License-Identifier: Apache-2.0
// Matmuls of bf16 for processors with dot products of pairs (AVX512_BF16). Panels are [k / 2][columns][2]; one
// instruction adds two products to each f32 sum. Products of bf16 are exact in f32, so the error is that of adding K
// numbers, as in f32. The instruction defines the order of additions and flushes denormals. Built for AVX-512 only, so
// included once; Highway 1.0 has no target for it, so the processor is checked at run time. Emulated pairs replace only
// the instruction, so the rest is tested everywhere.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/gemm/pack-bf16-inl.h"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR_AVX3 ",avx512bf16")
namespace unroll::cpu::HWY_NAMESPACE {

struct NativePairs {
  template <class V, class V32>
  static HWY_INLINE V add(V sum, V32 a, V32 b) {
    return V{_mm512_dpbf16_ps(sum.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
  }
};
struct EmulatedPairs {
  template <class V, class V32>
  static HWY_INLINE V add(V sum, V32 a, V32 b) {
    const hn::ScalableTag<float> d;
    const auto high = hn::Set(hn::ScalableTag<std::uint32_t>(), 0xffff0000u);
    sum = hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(a)), hn::BitCast(d, hn::ShiftLeft<16>(b)), sum);
    return hn::MulAdd(hn::BitCast(d, hn::And(a, high)), hn::BitCast(d, hn::And(b, high)), sum);
  }
};

template <class Pairs>
struct GemmBf16 {
  using D = hn::ScalableTag<float>;
  using D32 = hn::ScalableTag<std::uint32_t>;
  using V = hn::Vec<D>;
  using V32 = hn::Vec<D32>;
  using Half = std::uint16_t;
  static constexpr Index k_lanes = PairPanels::k_lanes, k_columns = PairPanels::k_columns;
  static constexpr Index k_block = 512;  // a panel of this depth takes 32 KiB
  static constexpr Index k_row_block = 20 * k_rows;

  struct Tile {
    Index k;
    const Half* a;
    Index a_stride;
    const Half* b;
    bool accumulate;
    float* c;
    Index c_stride;
  };

  static HWY_INLINE V32 pair(const Half* a) {
    std::uint32_t both;
    std::memcpy(&both, a, sizeof both);
    return hn::Set(D32(), both);
  }
  template <int R>
  static HWY_NOINLINE void tile(const Tile& t) {
    const D d;
    const D32 d32;
    V acc[R][2];
    UNROLL_FULLY for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = hn::Zero(d);
    constexpr int k_groups = (R + 2) / 3;
    const Half* group[k_groups];
    UNROLL_FULLY for (int g = 0; g < k_groups; ++g) group[g] = t.a + 3 * g * t.a_stride;
    const auto* b = reinterpret_cast<const std::uint32_t*>(t.b);
    const Index stride = t.a_stride;
    for (Index k = 0; k + 2 <= t.k; k += 2, b += k_columns) {
      const V32 first = hn::LoadU(d32, b), second = hn::LoadU(d32, b + k_lanes);
      UNROLL_FULLY for (int i = 0; i < R; ++i) {
        const V32 row = pair(group[i / 3] + (i % 3) * stride);
        acc[i][0] = Pairs::add(acc[i][0], row, first);
        acc[i][1] = Pairs::add(acc[i][1], row, second);
      }
      UNROLL_FULLY for (int g = 0; g < k_groups; ++g) group[g] += 2;
    }
    if (t.k % 2 != 0) {  // do not read beyond the end of a row
      const V32 first = hn::LoadU(d32, b), second = hn::LoadU(d32, b + k_lanes);
      UNROLL_FULLY for (int i = 0; i < R; ++i) {
        const V32 row = hn::Set(d32, std::uint32_t{group[i / 3][(i % 3) * stride]});
        acc[i][0] = Pairs::add(acc[i][0], row, first);
        acc[i][1] = Pairs::add(acc[i][1], row, second);
      }
    }
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < 2; ++j) {
        float* c = t.c + i * t.c_stride + j * k_lanes;
        V sum = acc[i][j];
        if (t.accumulate) sum = hn::Add(hn::LoadU(d, c), sum);
        hn::StoreU(sum, d, c);
      }
  }
  static void run_tile(const Tile& t, Index rows) {
    using Function = void (*)(const Tile&);
    static constexpr Function k_table[] = {tile<1>, tile<2>, tile<3>, tile<4>,  tile<5>,  tile<6>,
                                           tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>};
    k_table[rows - 1](t);
  }

  // Computes in a buffer: the last panel may be wider than c, or c may have 16 bits.
  static void buffered_tile(Tile t, Index rows, Index columns, DType result, void* c, Index c_stride) {
    float buffer[k_rows * k_columns] = {};
    if (t.accumulate) PairPanels::load(c, c_stride, rows, columns, buffer);
    t.c = buffer;
    t.c_stride = k_columns;
    run_tile(t, rows);
    PairPanels::store(buffer, rows, columns, result, c, c_stride);
  }

  static void multiply(Index m, Index n, Index k, const void* a, Index a_stride, const void* packed,
                       Index panel_stride, Index begin, Index end, bool accumulate, void* c, Index c_stride,
                       DType result) {
    const bool half = is_half(result);
    const Index blocks = half ? 1 : k_blocks(k, k_block);
    for (Index block = 0; block < blocks; ++block) {
      const Index k0 = k_start(k, block, blocks, k_multiple), depth = k_start(k, block + 1, blocks, k_multiple) - k0;
      for (Index first = 0; first < m; first += k_row_block) {
        const Index rows = std::min(k_row_block, m - first), tiles = (rows + k_rows - 1) / k_rows;
        for (Index p = begin; p < end; ++p)
          for (Index i = 0; i < tiles; ++i) {
            const Index row = first + rows * i / tiles, height = first + rows * (i + 1) / tiles - row;
            const Index column = p * k_columns, width = std::min(k_columns, n - column);
            const Tile t{depth, static_cast<const Half*>(a) + row * a_stride + k0, a_stride,
                         static_cast<const Half*>(packed) + p * panel_stride + k0 * k_columns,
                         accumulate || block > 0, static_cast<float*>(c) + row * c_stride + column, c_stride};
            Half* const half_c = static_cast<Half*>(c) + row * c_stride + column;
            if (half) buffered_tile(t, height, width, result, half_c, c_stride);
            else if (width < k_columns) buffered_tile(t, height, width, result, t.c, c_stride);
            else run_tile(t, height);
          }
      }
    }
  }

  static constexpr Index k_multiple = 2;
  static constexpr GemmKernels k_kernels{.operand = DType::bf16,
                                         .columns = k_columns,
                                         .k_block = k_block,
                                         .pack = PairPanels::pack<k_multiple>,
                                         .transpose = PairPanels::transpose,
                                         .multiply = multiply,
                                         .multiply_rows = nullptr,
                                         .multiply_dots = nullptr,
                                         .pack_columns = PairPanels::pack_columns,
                                         .k_multiple = k_multiple,
                                         .tile_rows = k_rows};
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
