// SPDX-License-Identifier: Apache-2.0
// Matmuls of bf16 in tiles (AMX): one instruction multiplies a [16, 32] by b [32, 16] and adds the result to f32.
// Panels are those of pairs, zero-padded to a multiple of 32 k. Each element sums 16 even and 16 odd k separately from
// zero, then adds both sums to c (Intel's description of TDPBF16PS). The order therefore depends on k alone, not on the
// tiles' rows and columns. Products of bf16 are exact in f32. Denormals are flushed. Emulated tiles use plain loops for
// the instructions, so the rest is tested everywhere.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/gemm/pack-bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

inline constexpr Index k_tile_side = 16;                // rows of a tile, and columns of f32
inline constexpr Index k_tile_depth = 2 * k_tile_side;  // columns of bf16
inline constexpr Index k_row_bytes = 64;

// Rows of c and a span two tiles: tiles 0, 1 and 4 have `rows` up to 16, tiles 2, 3 and 5 the rest.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);
constexpr std::array<TileConfig, 2 * k_tile_side + 1> make_tile_configs() {
  std::array<TileConfig, 2 * k_tile_side + 1> configs;
  for (Index rows = 1; rows <= 2 * k_tile_side; ++rows) {
    const auto upper = static_cast<std::uint8_t>(std::min(rows, k_tile_side));
    const auto lower = static_cast<std::uint8_t>(rows - upper);
    const std::uint8_t by_tile[] = {upper, upper, lower, lower, upper, lower, k_tile_side, k_tile_side};
    TileConfig& config = configs[rows];
    for (std::size_t i = 0; i < 8; ++i) {
      config.rows[i] = by_tile[i];
      config.row_bytes[i] = by_tile[i] == 0 ? 0 : k_row_bytes;
    }
  }
  return configs;
}
alignas(64) inline constexpr auto k_tile_configs = make_tile_configs();

// Inline assembly, because GCC's intrinsics require tile numbers as literals.
struct NativeTiles {
  static HWY_INLINE void configure(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" : : "m"(config)); }
  static HWY_INLINE void release() { __asm__ volatile("tilerelease"); }
  template <int tile>
  static HWY_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  static HWY_INLINE void load(const void* from, Index stride_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(tile) : "memory");
  }
  template <int tile>
  static HWY_INLINE void store(void* to, Index stride_bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride_bytes), "i"(tile) : "memory");
  }
  template <int sum, int a, int b>
  static HWY_INLINE void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
};

struct EmulatedTiles {
  struct State {
    TileConfig config;
    std::array<std::array<std::byte, k_tile_side * k_row_bytes>, 8> tiles;
  };
  static State& state() {
    static thread_local State of_thread;
    return of_thread;
  }
  static void configure(const TileConfig& config) { state().config = config; }
  static void release() {}
  template <int tile>
  static void zero() {
    state().tiles[tile].fill(std::byte{0});
  }
  template <int tile>
  static void load(const void* from, Index stride_bytes) {
    for (Index i = 0; i < state().config.rows[tile]; ++i)
      std::memcpy(state().tiles[tile].data() + i * k_row_bytes, static_cast<const std::byte*>(from) + i * stride_bytes,
                  k_row_bytes);
  }
  template <int tile>
  static void store(void* to, Index stride_bytes) {
    for (Index i = 0; i < state().config.rows[tile]; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * stride_bytes, state().tiles[tile].data() + i * k_row_bytes,
                  k_row_bytes);
  }
  template <class T>
  static T element(int tile, Index i, Index j) {
    T value;
    const std::byte* row = state().tiles[tile].data() + i * k_row_bytes;
    std::memcpy(&value, row + j * Index{sizeof(T)}, sizeof value);
    return value;
  }
  static float number(int tile, Index i, Index j) {
    return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(tile, i, j)} << 16);
  }
  template <int sum, int a, int b>
  static void multiply() {
    for (Index i = 0; i < state().config.rows[sum]; ++i)
      for (Index j = 0; j < k_tile_side; ++j) {
        float sums[2] = {};
        for (Index k = 0; k < k_tile_depth; ++k)
          sums[k % 2] += number(a, i, k) * number(b, k / 2, 2 * j + k % 2);
        const float all = element<float>(sum, i, j) + (sums[0] + sums[1]);
        std::memcpy(state().tiles[sum].data() + i * k_row_bytes + j * Index{sizeof all}, &all, sizeof all);
      }
  }
};

template <class Tiles>
struct GemmTiles {
  using Half = PairPanels::Half;
  static constexpr Index k_columns = PairPanels::k_columns, k_rows = 2 * k_tile_side;
  static constexpr Index k_multiple = k_tile_depth;
  static constexpr Index k_panels_at_once = 16;
  static constexpr Index k_block = 1024;  // as large as possible, because each block reads and writes c again

  struct Tile {
    Index k;
    const Half* a;
    Index a_stride;
    const Half* b;
    bool accumulate;
    float* c;
    Index c_stride;
  };

  // b: 32 k of a panel. A tile of b has 16 of its columns.
  template <bool both>
  static HWY_INLINE void add_products(const Half* a, Index a_stride, const Half* b) {
    constexpr Index k_size = sizeof(Half);
    Tiles::template load<4>(a, a_stride * k_size);
    Tiles::template load<6>(b, 2 * k_columns * k_size);
    Tiles::template load<7>(b + k_columns, 2 * k_columns * k_size);
    Tiles::template multiply<0, 4, 6>();
    Tiles::template multiply<1, 4, 7>();
    if constexpr (both) {
      Tiles::template load<5>(a + k_tile_side * a_stride, a_stride * k_size);
      Tiles::template multiply<2, 5, 6>();
      Tiles::template multiply<3, 5, 7>();
    }
  }

  // `both`: more than 16 rows. Does not read beyond the last k of a row.
  template <bool both>
  static HWY_NOINLINE void tile(const Tile& t, Index rows) {
    const Index c_bytes = t.c_stride * Index{sizeof(float)};
    if (t.accumulate) {
      Tiles::template load<0>(t.c, c_bytes);
      Tiles::template load<1>(t.c + k_tile_side, c_bytes);
      if constexpr (both) Tiles::template load<2>(t.c + k_tile_side * t.c_stride, c_bytes);
      if constexpr (both) Tiles::template load<3>(t.c + k_tile_side * t.c_stride + k_tile_side, c_bytes);
    } else {
      Tiles::template zero<0>();
      Tiles::template zero<1>();
      if constexpr (both) Tiles::template zero<2>();
      if constexpr (both) Tiles::template zero<3>();
    }
    Index k = 0;
    for (; k + k_tile_depth <= t.k; k += k_tile_depth) add_products<both>(t.a + k, t.a_stride, t.b + k * k_columns);
    if (k < t.k) {
      alignas(64) Half last[k_rows * k_tile_depth];
      copy_last(t.a + k, t.a_stride, rows, t.k - k, last);
        add_products<both>(last, k_tile_depth, t.b + k * k_columns);
    }
    Tiles::template store<0>(t.c, c_bytes);
    Tiles::template store<1>(t.c + k_tile_side, c_bytes);
    if constexpr (both) Tiles::template store<2>(t.c + k_tile_side * t.c_stride, c_bytes);
    if constexpr (both) Tiles::template store<3>(t.c + k_tile_side * t.c_stride + k_tile_side, c_bytes);
  }

  // Copies the first n of each row of a, then zeros.
  static HWY_INLINE void copy_last(const Half* a, Index a_stride, Index rows, Index n, Half* to) {
    const hn::CappedTag<Half, k_tile_depth> d;
    const auto some = hn::FirstN(d, n);
    for (Index i = 0; i < rows; ++i) hn::Store(hn::MaskedLoad(some, d, a + i * a_stride), d, to + i * k_tile_depth);
  }

  static HWY_INLINE void run_tile(const Tile& t, Index rows) {
    if (rows > k_tile_side) tile<true>(t, rows);
    else tile<false>(t, rows);
  }

  // Computes in a buffer: the last panel may be wider than c, or c may have 16 bits.
  static void buffered_tile(Tile t, Index rows, Index columns, DType result, void* c, Index c_stride) {
    alignas(64) float buffer[k_rows * k_columns];
    if (t.accumulate) {
      std::fill_n(buffer, rows * k_columns, 0.0f);
      PairPanels::load(c, c_stride, rows, columns, buffer);
    }
    t.c = buffer;
    t.c_stride = k_columns;
    run_tile(t, rows);
    PairPanels::store(buffer, rows, columns, result, c, c_stride);
  }

  struct Operands {
    Index n, k;
    const Half* a;
    Index a_stride;
    const Half* packed;
    Index panel_stride, begin, end;
    bool accumulate;
    void* c;
    Index c_stride;
    DType result;
  };
  // Computes rows [first, last), `height` at once; the tile configuration is loaded. A row tile visits all panels in
  // L2, so that c is written along its rows.
  static void multiply_rows(const Operands& o, Index first, Index last, Index height) {
    const bool half = is_half(o.result);
    const Index blocks = half ? 1 : k_blocks(o.k, k_block);
    for (Index block = 0; block < blocks; ++block) {
      const Index k0 = k_start(o.k, block, blocks, k_multiple);
      const Index depth = k_start(o.k, block + 1, blocks, k_multiple) - k0;
      const Index at_once = std::max<Index>(1, k_panels_at_once * k_block / std::max<Index>(1, depth));
      for (Index panel = o.begin; panel < o.end; panel += at_once)
        for (Index row = first; row < last; row += height)
          for (Index p = panel; p < std::min(o.end, panel + at_once); ++p) {
            const Index column = p * k_columns, width = std::min(k_columns, o.n - column);
            const Index at = row * o.c_stride + column;
            auto* const c = static_cast<float*>(o.c) + at;
            const Tile t{depth, o.a + row * o.a_stride + k0, o.a_stride, o.packed + p * o.panel_stride + k0 * k_columns,
                         o.accumulate || block > 0, c, o.c_stride};
            if (half) buffered_tile(t, height, width, o.result, static_cast<Half*>(o.c) + at, o.c_stride);
            else if (width < k_columns) buffered_tile(t, height, width, o.result, c, o.c_stride);
            else run_tile(t, height);
          }
    }
  }

  static void multiply(Index m, Index n, Index k, const void* a, Index a_stride, const void* packed,
                       Index panel_stride, Index begin, Index end, bool accumulate, void* c, Index c_stride,
                       DType result) {
    const Operands o{n,     k,   static_cast<const Half*>(a), a_stride, static_cast<const Half*>(packed), panel_stride,
                     begin, end, accumulate,                  c,        c_stride,                         result};
    const Index whole = m / k_rows * k_rows, rest = m - whole;
    if (whole > 0) {
      Tiles::configure(k_tile_configs[k_rows]);
      multiply_rows(o, 0, whole, k_rows);
    }
    if (rest > 0) {
      Tiles::configure(k_tile_configs[rest]);
      multiply_rows(o, whole, m, rest);
    }
    if (m > 0) Tiles::release();
  }

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
                                         .tile_rows = k_rows,
                                         .panels_at_once = k_panels_at_once,
                                         .a_multiple = k_multiple};
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
