// SPDX-License-Identifier: Apache-2.0
// Numbers with only the digits that their precision supports.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace unroll {

// Returns the number with the fewest significant digits within `tolerance` of `value`.
inline double shortest_near(double value, double tolerance) {
  if (!(tolerance > 0) || !std::isfinite(value) || value == 0) return value;
  constexpr int k_most = std::numeric_limits<double>::max_digits10;
  const int surely_too_few = static_cast<int>(std::floor(std::log10(std::fabs(value) / tolerance))) - 1;
  for (int digits = std::clamp(surely_too_few, 1, k_most); digits < k_most; ++digits) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1).ptr;
    double near = value;
    std::from_chars(text, end, near);
    if (std::fabs(near - value) <= tolerance) return near;
  }
  return value;
}
// Returns scale * computed + offset for an f32 `computed`, with the fewest digits that distinguish its neighbors: those
// in f32 of `computed` or of the result, or at the rounding of an f32 near 1, times the scale.
inline double scaled_f32(float computed, double scale, double offset) {
  const auto half_ulp = [](double number) {
    const float size = std::fabs(static_cast<float>(number));
    return (static_cast<double>(std::nextafter(size, HUGE_VALF)) - static_cast<double>(size)) / 2;
  };
  const double value = static_cast<double>(computed) * scale + offset, size = std::fabs(scale);
  return shortest_near(value, std::max(half_ulp(computed) * size, std::min(half_ulp(1) * size, half_ulp(value))));
}

}  // namespace unroll
