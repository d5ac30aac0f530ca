// SPDX-License-Identifier: Apache-2.0
// Matmuls of few rows with weights stored in fewer bits and expanded in registers. Such a matmul reads every weight
// once, so its time is proportional to the bytes of the weights.
#if defined(UNROLL_CPU_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNROLL_CPU_WEIGHTS_INL_H_
#undef UNROLL_CPU_WEIGHTS_INL_H_
#else
#define UNROLL_CPU_WEIGHTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Index = std::int64_t;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
inline constexpr Index k_lanes = static_cast<Index>(hn::MaxLanes(D()));

// Stores the upper half of an f32. Columns of two vectors alternate, so that a shift yields one and a mask the other.
struct AsBf16 {
  using Stored = std::uint16_t;
  static constexpr const char* k_name = "bf16";
  static constexpr bool k_scaled = false;
  static Index place(Index column) {  // within a panel
    const Index in_pair = column % (2 * k_lanes);
    return column - in_pair + in_pair % k_lanes * 2 + in_pair / k_lanes;
  }
  static HWY_INLINE void load(const Stored* from, V& first, V& second) {
    const hn::RebindToUnsigned<D> d32;
    const auto both = hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(from));
    first = hn::BitCast(D(), hn::ShiftLeft<16>(both));
    second = hn::BitCast(D(), hn::And(both, hn::Set(d32, 0xffff0000u)));
  }
  static Stored store(float weight, float) {
    std::uint32_t bits;
    std::memcpy(&bits, &weight, sizeof bits);
    if (weight != weight) return static_cast<Stored>(bits >> 16 | 0x40);
    return static_cast<Stored>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // to nearest, ties to even
  }
};

struct AsInt8 {
  using Stored = std::int8_t;
  static constexpr const char* k_name = "int8";
  static constexpr bool k_scaled = true;
  static Index place(Index column) { return column; }
  static HWY_INLINE void load(const Stored* from, V& first, V& second) {
    const hn::Rebind<std::int8_t, D> d8;
    const hn::RebindToSigned<D> d32;
    first = hn::ConvertTo(D(), hn::PromoteTo(d32, hn::LoadU(d8, from)));
    second = hn::ConvertTo(D(), hn::PromoteTo(d32, hn::LoadU(d8, from + k_lanes)));
  }
  static Stored store(float weight, float scale) {
    return scale > 0 ? static_cast<Stored>(std::lrint(weight / scale)) : Stored{0};
  }
};

template <class As>
struct Stored {
  using S = typename As::Stored;
  // Vectors of columns of a panel: one row is read from consecutive addresses into this many accumulators.
  static constexpr int k_vectors = 8;
  static constexpr Index k_columns = k_vectors * k_lanes;

  struct Tile {
    Index k;
    const float* a;
    Index a_stride;
    const S* b;
    const float* scales;
    float* c;
    Index c_stride;
    Index columns;  // valid columns of c
  };

  // R rows times N vectors of columns, N even.
  template <int R, int N>
  static HWY_NOINLINE void tile(const Tile& t) {
    const D d;
    V acc[R][N];
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < N; ++j) acc[i][j] = hn::Zero(d);
    const S* b = t.b;
    for (Index k = 0; k < t.k; ++k, b += k_columns) {
      V row[R];
      UNROLL_FULLY for (int i = 0; i < R; ++i) row[i] = hn::Set(d, t.a[i * t.a_stride + k]);
      UNROLL_FULLY for (int j = 0; j < N; j += 2) {
        V first, second;
        As::load(b + j * k_lanes, first, second);
        UNROLL_FULLY for (int i = 0; i < R; ++i) {
          acc[i][j] = hn::MulAdd(row[i], first, acc[i][j]);
          acc[i][j + 1] = hn::MulAdd(row[i], second, acc[i][j + 1]);
        }
      }
    }
    UNROLL_FULLY for (int i = 0; i < R; ++i)
      UNROLL_FULLY for (int j = 0; j < N; ++j) {
        const V sum = As::k_scaled ? hn::Mul(acc[i][j], hn::LoadU(d, t.scales + j * k_lanes)) : acc[i][j];
        store_columns(sum, t.c + i * t.c_stride + j * k_lanes, t.columns - j * k_lanes);
      }
  }
  static HWY_INLINE void store_columns(V sum, float* c, Index columns) {
    const D d;
    if (columns >= k_lanes) return hn::StoreU(sum, d, c);
    float buffer[k_lanes];
    hn::StoreU(sum, d, buffer);
    for (Index i = 0; i < columns; ++i) c[i] = buffer[i];
  }

  // Computes all columns of a panel for R rows, in groups of as many vectors as the registers hold.
  template <int R>
  static void rows_of_panel(Tile t) {
    constexpr int k_registers = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 24 : 12;
    constexpr int k_group = k_registers / R >= 8 ? 8 : k_registers / R >= 4 ? 4 : 2;
    for (Index left = std::min(t.columns, k_columns); left > 0;) {
      const bool whole = left > 2 * k_lanes;
      const Index done = whole ? k_group * k_lanes : 2 * k_lanes;
      if (whole) tile<R, k_group>(t);
      else tile<R, 2>(t);
      left -= done;
      t.b += done;
      t.scales += done;
      t.c += done;
      t.columns -= done;
    }
  }

  static void multiply(Index m, Index n, Index k, const float* a, Index a_stride, const void* packed,
                       const float* scales, Index begin, Index end, float* c, Index c_stride) {
    for (Index p = begin; p < end; ++p) {
      Tile t{k, a, a_stride, static_cast<const S*>(packed) + p * k * k_columns, scales + p * k_columns,
             c + p * k_columns, c_stride, n - p * k_columns};
      for (Index i = 0; i < m;) {
        t.a = a + i * a_stride;
        t.c = c + i * c_stride + p * k_columns;
        switch (std::min<Index>(m - i, 4)) {
          case 1: rows_of_panel<1>(t); i += 1; break;
          case 2: rows_of_panel<2>(t); i += 2; break;
          case 3: rows_of_panel<3>(t); i += 3; break;
          default: rows_of_panel<4>(t); i += 4; break;
        }
      }
    }
  }

  static float at(const float* b, Index stride, bool transposed, Index row, Index column) {
    return transposed ? b[column * stride + row] : b[row * stride + column];
  }
  static float scale_of(const float* b, Index stride, bool transposed, Index k, Index column) {
    float most = 0;
    for (Index row = 0; As::k_scaled && row < k; ++row)
      most = std::max(most, std::fabs(at(b, stride, transposed, row, column)));
    return most / 127;
  }
  static void pack(const float* b, Index stride, bool transposed, Index k, Index n, void* packed, float* scales) {
    for (Index column = 0; column < n; ++column) {
      scales[column] = scale_of(b, stride, transposed, k, column);
      S* to = static_cast<S*>(packed) + column / k_columns * k * k_columns + As::place(column % k_columns);
      for (Index row = 0; row < k; ++row) {
        const S weight = As::store(at(b, stride, transposed, row, column), scales[column]);
        std::memcpy(to + row * k_columns, &weight, sizeof weight);  // not through S*: two may be read at once
      }
    }
  }

  static constexpr WeightKernels k_kernels{As::k_name, k_columns, sizeof(S), 1, false, pack, multiply};
};

inline const WeightKernels* weights_bf16() { return &Stored<AsBf16>::k_kernels; }

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
