// SPDX-License-Identifier: Apache-2.0
// Number formats with fewer bits than f32: rounding to a format, and conversion from and to its bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "unroll/support/tensor.h"

namespace unroll {

struct Format {
  int mantissa;         // stored bits
  int lowest_exponent;  // of the smallest normal number
  double largest;
};
inline constexpr Format k_bf16{7, -126, 0x1.FEp127};
inline constexpr Format k_f16{10, -14, 65504};       // IEEE binary16
inline constexpr Format k_tf32{10, -126, 0x1.FFCp127};  // the operand format of NVIDIA's tf32 matmuls

// Rounds to nearest, ties to even. Overflow becomes infinity; subnormal numbers keep the format's precision.
template <class T>
T round_to(const Format& format, T x) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::ilogb(x);
  const int unit = (exponent < format.lowest_exponent ? format.lowest_exponent : exponent) - format.mantissa;
  const T y = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return static_cast<double>(std::fabs(y)) > format.largest ? std::copysign(static_cast<T>(INFINITY), x) : y;
}

inline float to_float(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline Bf16 to_bf16(double x) {
  if (x != x) return {static_cast<std::uint16_t>(std::signbit(x) ? 0xffc0 : 0x7fc0)};
  return {static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(round_to(k_bf16, x))) >> 16)};
}
// 1 sign, 5 exponent, 10 mantissa bits. Every value is an f32 value; infinities and NaNs keep their kind.
inline float to_float(F16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 1023u;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}
inline F16 to_f16(double x) {
  const unsigned sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(round_to(k_f16, x));
  unsigned bits = 0x7e00;                                   // NaN
  if (size == INFINITY) bits = 0x7c00;
  else if (size < 0x1p-14) bits = static_cast<unsigned>(size * 0x1p24);  // subnormal: multiples of 2^-24
  else if (size == size) {
    const int exponent = std::ilogb(size);
    bits = static_cast<unsigned>((exponent + 15) << 10) + static_cast<unsigned>(std::ldexp(size, 10 - exponent)) - 1024;
  }
  return {static_cast<std::uint16_t>(sign | bits)};
}

}  // namespace unroll
