// SPDX-License-Identifier: Apache-2.0
// Emulated number formats: the value that results from storing a number in a format.
#pragma once

#include <cmath>

namespace unroll::common {

struct Format {
  int mantissa;         // stored bits
  int lowest_exponent;  // of the smallest normal number
  double largest;
};
inline constexpr Format k_bf16{7, -126, 0x1.FEp127};
inline constexpr Format k_f16{10, -14, 65504};       // IEEE binary16
inline constexpr Format k_tf32{10, -126, 0x1.FFCp127};  // what NVIDIA's products round f32 operands to

// To nearest, ties to even; beyond the largest to infinity; subnormal numbers as the format has them.
template <class T>
T round_to(const Format& format, T x) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::ilogb(x);
  const int unit = (exponent < format.lowest_exponent ? format.lowest_exponent : exponent) - format.mantissa;
  const T y = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return static_cast<double>(std::fabs(y)) > format.largest ? std::copysign(static_cast<T>(INFINITY), x) : y;
}

}  // namespace unroll::common
