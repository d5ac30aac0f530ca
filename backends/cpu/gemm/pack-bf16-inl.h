// SPDX-License-Identifier: Apache-2.0
// Packing of bf16 panels for matmuls by pairs: [k / 2][columns][2]. Built for AVX-512 only, so included once.
#pragma once

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/gemm/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unroll::cpu::HWY_NAMESPACE {

struct PairPanels {
  using D32 = hn::ScalableTag<std::uint32_t>;
  using V32 = hn::Vec<D32>;
  using Half = std::uint16_t;
  static constexpr Index k_lanes = 16, k_columns = 32;

  // Interleaves two rows of 16-bit numbers into pairs; `second` may be null: zeros.
  static void interleave(const Half* first, const Half* second, Index n, std::uint32_t* to) {
    const D32 d32;
    const hn::Rebind<Half, D32> d16;
    Index j = 0;
    for (; j + k_lanes <= n; j += k_lanes) {
      V32 both = hn::PromoteTo(d32, hn::LoadU(d16, first + j));
      if (second) both = hn::Or(both, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, second + j))));
      hn::StoreU(both, d32, to + j);
    }
    for (; j < n; ++j) {
      const std::uint32_t both = first[j] | (second ? std::uint32_t{second[j]} << 16 : 0);
      std::memcpy(to + j, &both, sizeof both);  // later moved as f32
    }
  }

  // to[j * to_stride + i] = from[i * from_stride + j]; to_stride is even, with room for an even count of rows.
  static void transpose(const void* from_bytes, Index from_stride, Index rows, Index columns, void* to_bytes,
                        Index to_stride) {
    constexpr Index k_pairs = 32, k_wide = 32, k_skew = 16;
    const auto* from = static_cast<const Half*>(from_bytes);
    std::uint32_t block[k_pairs * (k_wide + k_skew)];
    for (Index i = 0; i < rows; i += 2 * k_pairs)
      for (Index j = 0; j < columns; j += k_wide) {
        const Index n = std::min(k_wide, columns - j), pairs = (std::min(2 * k_pairs, rows - i) + 1) / 2;
        for (Index p = 0; p < pairs; ++p) {
          const Half* first = from + (i + 2 * p) * from_stride + j;
          interleave(first, i + 2 * p + 1 < rows ? first + from_stride : nullptr, n, block + p * (k_wide + k_skew));
        }
        Gemm<float>::transpose(block, k_wide + k_skew, pairs, n,
                               static_cast<Half*>(to_bytes) + j * to_stride + i, to_stride / 2);
      }
  }

  // Packs columns of b [k, n], or of its transpose [n, k], into [k / 2][k_columns][2].
  static void pack_columns(const void* b_bytes, Index stride, bool transposed, Index k, Index columns, void* to_bytes) {
    const auto* b = static_cast<const Half*>(b_bytes);
    auto* to = static_cast<std::uint32_t*>(to_bytes);
    const Index pairs = k / 2;
    if (!transposed) {
      for (Index p = 0; p < (k + 1) / 2; ++p)
        interleave(b + 2 * p * stride, 2 * p + 1 < k ? b + (2 * p + 1) * stride : nullptr, columns, to + p * k_columns);
      return;
    }
    if (stride % 2 == 0) {  // pairs are adjacent
      Gemm<float>::transpose(b, stride / 2, columns, pairs, to, k_columns);
    } else {
      for (Index j = 0; j < columns; ++j)
        for (Index p = 0; p < pairs; ++p) std::memcpy(to + p * k_columns + j, b + j * stride + 2 * p, sizeof *to);
    }
    for (Index j = 0; j < columns && k % 2 != 0; ++j) to[pairs * k_columns + j] = b[j * stride + k - 1];
  }

  // Packs whole adjacent panels of b [k, n]: each row is read once from start to end.
  static void pack_rows(const Half* b, Index stride, Index k, Index panels, Index panel_stride, Half* to) {
    for (Index i = 0; i < k; i += 2)
      for (Index p = 0; p < panels; ++p) {
        const Half* first = b + i * stride + p * k_columns;
        auto* pairs = reinterpret_cast<std::uint32_t*>(to + p * panel_stride + i * k_columns);
        interleave(first, i + 1 < k ? first + stride : nullptr, k_columns, pairs);
      }
  }

  // `multiple`: panels are zero-padded to a multiple of this k.
  template <Index multiple>
  static void pack(const void* b_bytes, Index stride, bool transposed, Index k, Index n, Index begin, Index end,
                   Index panel_stride, void* packed) {
    constexpr Index k_at_once = 8;  // streams that the processor prefetches
    const auto* b = static_cast<const Half*>(b_bytes);
    const Index whole = k / 2 * 2, depth = (k + multiple - 1) / multiple * multiple;
    for (Index p = begin; p < end;) {
      Half* panel = static_cast<Half*>(packed) + p * panel_stride;
      const Index column = p * k_columns, count = std::min({(n - column) / k_columns, end - p, k_at_once});
      const Half* from = b + (transposed ? column * stride : column);
      if (!transposed && count > 1) {
        for (Index i = 0; i < count; ++i) fill_up(panel + i * panel_stride, whole, depth);
        pack_rows(from, stride, k, count, panel_stride, panel);
        p += count;
        continue;
      }
      const Index columns = std::min(k_columns, n - column);
      fill_up(panel, columns < k_columns ? 0 : whole, depth);
      pack_columns(from, stride, transposed, k, columns, panel);
      ++p;
    }
  }
  static void fill_up(Half* panel, Index begin, Index end) {
    std::fill_n(panel + begin * k_columns, (end - begin) * k_columns, Half{0});
  }

  // Copies a block of c from and to a buffer [rows][k_columns].
  static void load(const void* c, Index c_stride, Index rows, Index columns, float* buffer) {
    for (Index i = 0; i < rows; ++i)
      std::copy_n(static_cast<const float*>(c) + i * c_stride, columns, buffer + i * k_columns);
  }
  static void store(const float* buffer, Index rows, Index columns, DType result, void* c, Index c_stride) {
    for (Index i = 0; i < rows; ++i, buffer += k_columns) {
      if (result == DType::bf16)
        Gemm<float>::template narrow_row<Bf16Lanes>(buffer, columns, static_cast<Half*>(c) + i * c_stride);
      else std::copy_n(buffer, columns, static_cast<float*>(c) + i * c_stride);
    }
  }
};

}  // namespace unroll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
