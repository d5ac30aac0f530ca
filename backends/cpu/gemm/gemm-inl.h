// SPDX-License-Identifier: Apache-2.0
// Matrix kernels for one instruction set. A tile of up to k_rows x 2 vectors of c stays in registers while k runs.
// Every element of c sums its products in the order of k, in blocks, for any division of the work.
#if defined(UNROLL_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_GEMM_INL_H_
#undef UNROLL_CPU_GEMM_INL_H_
#else
#define UNROLL_CPU_GEMM_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "backends/cpu/gemm/gemm-dots-inl.h"
#include "backends/cpu/kernels/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

// 24 accumulators with 32 registers, or 12 with 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int k_rows = 12;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
inline constexpr int k_rows = 6;
#else
inline constexpr int k_rows = 2;
#endif

// A part of b that a tile fetches into caches; for b in L3 or memory, processors do it too late. row: one that comes a
// little later, which may lie in another page if b is read in place. next: a share of the next panel.
enum class Fetch { none, row, next };

template <class T>
struct Gemm {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr Index k_lanes = static_cast<Index>(hn::MaxLanes(D()));
  static constexpr Index k_columns = 2 * k_lanes;
  static constexpr Index k_block = 384;
  // With fewer rows, the processor fetches b in time by itself.
  static constexpr Index k_least_fetching = 6, k_rows_ahead = 8;
  // A packed b up to this size stays in L2, where the tiles after the third find any b.
  static constexpr Index k_near_bytes = 1 << 20, k_few_tiles = 3;
  // Rows of a whose k block stays in L2.
  static constexpr Index k_row_block = 20 * k_rows;

  // Arguments of one tile call; c starts at the tile's first column.
  struct Tile {
    Index k;
    const T* a;
    Index a_stride;
    const T* b;
    Index b_stride;  // elements from one k to the next
    Index panel_stride;
    bool accumulate;
    T* c;
    Index c_stride;
    const T* next = nullptr;  // Fetch::next: beside each k, a part of a row of the next panel
    Index next_step = 0;
  };

  // R rows times P panels. Every third row has a pointer, because R pointers would not fit in registers.
  template <int R, int P, Fetch fetch = Fetch::none>
  static HWY_NOINLINE void tile(const Tile& t) {
    const D d;
    constexpr int k_groups = (R + 2) / 3;
    V acc[R][2 * P];
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < 2 * P; ++j) acc[i][j] = hn::Zero(d);
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < 2 * P; ++j) hwy::Prefetch(t.c + i * t.c_stride + j * k_lanes);
    const T* group[k_groups];
    UNROLL_FULLY for (int g = 0; g < k_groups; ++g) group[g] = t.a + 3 * g * t.a_stride;
    const T *b = t.b, *next = t.next;
    const Index stride = t.a_stride;
    const Index b_stride = t.b_stride;
    const Index panel_stride = t.panel_stride;
    for (Index k = 0; k < t.k; ++k) {
      V column[2 * P];
      UNROLL_FULLY for (int j = 0; j < 2 * P; ++j)
        column[j] = hn::LoadU(d, b + (j / 2) * panel_stride + (j % 2) * k_lanes);
      if constexpr (fetch == Fetch::row)
        UNROLL_FULLY for (int j = 0; j < 2; ++j) hwy::Prefetch(b + k_rows_ahead * b_stride + j * k_lanes);
      if constexpr (fetch == Fetch::next) {
        hwy::Prefetch(next);
        next += t.next_step;
      }
      // Without this fence the compiler reloads b for each of two or three rows.
      if (R == 2 || R == 3) std::atomic_signal_fence(std::memory_order_seq_cst);
      UNROLL_FULLY for (int i = 0; i < R; ++i) {
        const V row = hn::Set(d, group[i / 3][(i % 3) * stride]);
        UNROLL_FULLY for (int j = 0; j < 2 * P; ++j) acc[i][j] = hn::MulAdd(row, column[j], acc[i][j]);
      }
      UNROLL_FULLY for (int g = 0; g < k_groups; ++g) ++group[g];
      b += b_stride;
    }
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < 2 * P; ++j) {
        T* c = t.c + i * t.c_stride + j * k_lanes;
        V sum = acc[i][j];
        if (t.accumulate) sum = hn::Add(hn::LoadU(d, c), sum);
        hn::StoreU(sum, d, c);
      }
  }

  using TileFunction = void (*)(const Tile&);
  // Tile functions by number of rows. Few rows take several panels at once, because one panel forms a dependent chain.
  template <Fetch fetch, int... R>
  static const TileFunction* table_of(std::integer_sequence<int, R...>) {
    static constexpr TileFunction k_table[] = {tile<R + 1, 1, fetch>...};
    return k_table;
  }
  // The functions of one panel for 1, 2, ... rows.
  template <Fetch fetch = Fetch::none>
  static const TileFunction* one_panel() {
    return table_of<fetch>(std::make_integer_sequence<int, k_rows>());
  }
  static const TileFunction* one_panel(Fetch fetch) {
    if (fetch == Fetch::none) return one_panel();
    return fetch == Fetch::row ? one_panel<Fetch::row>() : one_panel<Fetch::next>();
  }
  static Fetch fetch_of(Index m, const Tile& t, Index panels) {
    if (m < k_least_fetching) return Fetch::none;
    const Index bytes = panels * t.panel_stride * static_cast<Index>(sizeof(T));
    if (t.b_stride == k_columns && bytes > k_near_bytes && m > k_rows) return Fetch::next;
    return m <= k_few_tiles * k_rows ? Fetch::row : Fetch::none;
  }
  struct Wide {
    Index panels;
    TileFunction function;
  };
  static Wide many_panels(Index rows) {
    if (k_rows < 6 || rows > 3) return {1, nullptr};
    if (rows == 1) return {4, tile<1, 4>};
    if (k_rows < 12) return {1, nullptr};
    return {2, rows == 2 ? tile<2, 2> : tile<3, 2>};
  }

  // The last panel may be wider than c: the tile is computed in a buffer.
  static void ragged_tile(Tile t, Index rows, Index columns) {
    T buffer[k_rows * k_columns] = {};
    T* const c = t.c;
    const Index c_stride = t.c_stride;
    if (t.accumulate)
      for (Index i = 0; i < rows; ++i) std::copy_n(c + i * c_stride, columns, buffer + i * k_columns);
    t.c = buffer;
    t.c_stride = k_columns;
    one_panel()[rows - 1](t);
    for (Index i = 0; i < rows; ++i) std::copy_n(buffer + i * k_columns, columns, c + i * c_stride);
  }

  // A tile with a 16-bit result.
  static void half_tile(Tile t, Index rows, Index columns, DType result, std::uint16_t* c) {
    T buffer[k_rows * k_columns];
    const Index c_stride = t.c_stride;
    t.c = buffer;
    t.c_stride = k_columns;
    one_panel()[rows - 1](t);
    if constexpr (sizeof(T) == 4) {
      for (Index i = 0; i < rows; ++i)
        if (result == DType::bf16) narrow_row<Bf16Lanes>(buffer + i * k_columns, columns, c + i * c_stride);
        else narrow_row<F16Lanes>(buffer + i * k_columns, columns, c + i * c_stride);
    }
  }
  template <class As>
  static void narrow_row(const T* from, Index n, std::uint16_t* to) {
    const D d;
    const hn::Rebind<std::uint16_t, D> d16;
    std::uint16_t row[k_columns];
    std::uint16_t* const at = n == k_columns ? to : row;
    for (Index j = 0; j < k_columns; j += k_lanes) hn::StoreU(As::narrowed(d, hn::LoadU(d, from + j)), d16, at + j);
    if (at == row) std::copy_n(row, n, to);
  }
  static void multiply_halves(Index m, Index n, Tile t, Index begin, Index end, DType result) {
    auto* const c = reinterpret_cast<std::uint16_t*>(t.c);
    const T *const a = t.a, *const packed = t.b;
    const Index tiles = (m + k_rows - 1) / k_rows;
    for (Index p = begin; p < end; ++p)
      for (Index i = 0; i < tiles; ++i) {
        const Index row = m * i / tiles, column = p * k_columns;
        t.a = a + row * t.a_stride;
        t.b = packed + p * t.panel_stride;
        half_tile(t, m * (i + 1) / tiles - row, std::min(k_columns, n - column), result,
                  c + row * t.c_stride + column);
      }
  }

  // Row tiles of equal height, at most k_rows, over one block of k and of rows.
  static void multiply_block(Index m, Index n, Tile t, Index begin, Index end) {
    const Index tiles = (m + k_rows - 1) / k_rows;
    const Wide wide = many_panels(m);
    const Fetch fetch = fetch_of(m, t, end - begin);
    const TileFunction* const of_rows = one_panel(fetch);
    if (fetch == Fetch::next) t.next_step = (k_columns + tiles - 1) / tiles;  // a tile's share of a row
    const T* const a = t.a;
    T* const c = t.c;
    const T* const packed = t.b;
    for (Index p = begin; p < end;) {
      const Index column = p * k_columns;
      t.b = packed + p * t.panel_stride;
      const bool whole = p + wide.panels <= end && (p + wide.panels) * k_columns <= n;
      if (wide.function && whole) {
        t.c = c + column;
        wide.function(t);
        p += wide.panels;
        continue;
      }
      for (Index i = 0; i < tiles; ++i) {
        const Index row = m * i / tiles;
        const Index rows = m * (i + 1) / tiles - row;
        t.a = a + row * t.a_stride;
        t.c = c + row * t.c_stride + column;
        if (fetch == Fetch::next) t.next = t.b + t.panel_stride + i * t.k * t.next_step;
        if (column + k_columns <= n) of_rows[rows - 1](t);
        else ragged_tile(t, rows, n - column);
      }
      t.a = a;
      ++p;
    }
  }

  static void multiply(Index m, Index n, Index k, const void* a, Index a_stride, const void* packed,
                       Index panel_stride, Index begin, Index end, bool accumulate, void* c, Index c_stride,
                       DType result) {
    if (is_half(result)) {
      for (Index r = 0; r < m; r += k_row_block) {
        const Tile t{k, static_cast<const T*>(a) + r * a_stride, a_stride, static_cast<const T*>(packed), k_columns,
                     panel_stride, false,
                     reinterpret_cast<T*>(static_cast<std::uint16_t*>(c) + r * c_stride), c_stride};
        multiply_halves(std::min(k_row_block, m - r), n, t, begin, end, result);
      }
      return;
    }
    const Index blocks = k_blocks(k, k_block);
    for (Index block = 0; block < blocks; ++block) {
      const Index k0 = k * block / blocks;
      const Index depth = k * (block + 1) / blocks - k0;
      for (Index r = 0; r < m; r += k_row_block) {
        const Tile t{depth,
                     static_cast<const T*>(a) + r * a_stride + k0,
                     a_stride,
                     static_cast<const T*>(packed) + k0 * k_columns,
                     k_columns,
                     panel_stride,
                     accumulate || block > 0,
                     static_cast<T*>(c) + r * c_stride,
                     c_stride};
        multiply_block(std::min(k_row_block, m - r), n, t, begin, end);
      }
    }
  }

  // Reads b in place; its ragged last panel is packed first, into `tail` [k][columns].
  static void multiply_rows(Index m, Index n, Index k, const void* a, Index a_stride, const void* b, Index b_stride,
                            Index begin, Index end, void* tail, void* c, Index c_stride) {
    const Index whole = std::min(end, n / k_columns);
    const Index blocks = k_blocks(k, k_block);
    if (whole < end) pack(b, b_stride, false, k, n, whole, end, 0, tail);
    for (Index block = 0; block < blocks; ++block) {
      const Index k0 = k * block / blocks;
      Tile t{k * (block + 1) / blocks - k0,
             static_cast<const T*>(a) + k0,
             a_stride,
             static_cast<const T*>(b) + k0 * b_stride,
             b_stride,
             k_columns,
             block > 0,
             static_cast<T*>(c),
             c_stride};
      multiply_block(m, n, t, begin, whole);
      t.b = static_cast<const T*>(tail) + k0 * k_columns;
      t.b_stride = k_columns;
      t.panel_stride = 0;
      if (whole < end) multiply_block(m, n, t, whole, end);
    }
  }

  // Transposes squares of 16 bytes: 4 x 4 floats or 2 x 2 doubles. k_lines rows at a time fill whole cache lines of
  // `to`, so few lines are in use at once. Strides that are powers of two map to few cache sets.
  static void transpose(const void* from_bytes, Index from_stride, Index rows, Index columns, void* to_bytes,
                        Index to_stride) {
    const T* from = static_cast<const T*>(from_bytes);
    T* to = static_cast<T*>(to_bytes);
    constexpr Index k_side = HWY_TARGET == HWY_SCALAR ? 1 : 16 / static_cast<Index>(sizeof(T));
    constexpr Index k_lines = 64 / static_cast<Index>(sizeof(T));
    const Index square_rows = rows - rows % k_side;
    const Index square_columns = columns - columns % k_side;
    for (Index r = 0; r < square_rows; r += k_lines) {
      const Index end = std::min(r + k_lines, square_rows);
      for (Index j = 0; j < square_columns; j += k_side)
        for (Index i = r; i < end; i += k_side)
          transpose_square(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
      for (Index j = square_columns; j < columns; ++j)
        for (Index i = r; i < end; ++i) to[j * to_stride + i] = from[i * from_stride + j];
    }
    for (Index i = square_rows; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) to[j * to_stride + i] = from[i * from_stride + j];
  }
  static HWY_INLINE void transpose_square(const T* from, Index from_stride, T* to, Index to_stride) {
#if HWY_TARGET == HWY_SCALAR
    *to = *from;
    static_cast<void>(from_stride + to_stride);
#else
    const hn::CappedTag<T, 16 / sizeof(T)> d;
    const auto r0 = hn::LoadU(d, from);
    const auto r1 = hn::LoadU(d, from + from_stride);
    if constexpr (sizeof(T) == 8) {
      hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
      hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + to_stride);
    } else {
      const auto r2 = hn::LoadU(d, from + 2 * from_stride);
      const auto r3 = hn::LoadU(d, from + 3 * from_stride);
      const auto l02 = hn::InterleaveLower(d, r0, r2), u02 = hn::InterleaveUpper(d, r0, r2);
      const auto l13 = hn::InterleaveLower(d, r1, r3), u13 = hn::InterleaveUpper(d, r1, r3);
      hn::StoreU(hn::InterleaveLower(d, l02, l13), d, to);
      hn::StoreU(hn::InterleaveUpper(d, l02, l13), d, to + to_stride);
      hn::StoreU(hn::InterleaveLower(d, u02, u13), d, to + 2 * to_stride);
      hn::StoreU(hn::InterleaveUpper(d, u02, u13), d, to + 3 * to_stride);
    }
#endif
  }

  static void pack(const void* b_bytes, Index stride, bool transposed, Index k, Index n, Index begin, Index end,
                   Index panel_stride, void* packed_bytes) {
    const T* b = static_cast<const T*>(b_bytes);
    for (Index p = begin; p < end; ++p) {
      T* packed = static_cast<T*>(packed_bytes) + p * panel_stride;
      const Index column = p * k_columns;
      const Index columns = std::min(k_columns, n - column);
      if (transposed) {
        transpose(b + column * stride, stride, columns, k, packed, k_columns);
      } else if (columns == k_columns) {
        const D d;
        for (Index i = 0; i < k; ++i) {
          const T* row = b + i * stride + column;
          hn::Store(hn::LoadU(d, row), d, packed + i * k_columns);
          hn::Store(hn::LoadU(d, row + k_lanes), d, packed + i * k_columns + k_lanes);
        }
      } else {
        for (Index i = 0; i < k; ++i) std::copy_n(b + i * stride + column, columns, packed + i * k_columns);
      }
      for (Index i = 0; i < k && columns < k_columns; ++i)
        std::fill(packed + i * k_columns + columns, packed + (i + 1) * k_columns, T{0});
    }
  }

  using Pack = decltype(GemmKernels::pack);
  using Transpose = decltype(GemmKernels::transpose);
  static constexpr GemmKernels of_halves(Pack packed, Transpose transposed) {
    return {.operand = DType::f32,
            .columns = k_columns,
            .k_block = k_block,
            .pack = packed,
            .transpose = transposed,
            .multiply = multiply,
            .multiply_rows = nullptr,
            .multiply_dots = nullptr,
            .tile_rows = k_rows};
  }
  static constexpr GemmKernels k_kernels{.operand = sizeof(T) == 8 ? DType::f64 : DType::f32,
                                         .columns = k_columns,
                                         .k_block = k_block,
                                         .pack = pack,
                                         .transpose = transpose,
                                         .multiply = multiply,
                                         .multiply_rows = multiply_rows,
                                         .multiply_dots = GemmDots<T>::multiply,
                                         .tile_rows = k_rows};
  static constexpr GemmKernels k_from_bf16 = of_halves(pack_bf16, transpose_bf16);
  static constexpr GemmKernels k_from_f16 = of_halves(pack_f16, transpose_f16);
};

inline const GemmKernels* gemm_f32() { return &Gemm<float>::k_kernels; }
inline const GemmKernels* gemm_f16() { return &Gemm<float>::k_from_f16; }
inline const GemmKernels* gemm_f64() { return &Gemm<double>::k_kernels; }

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
