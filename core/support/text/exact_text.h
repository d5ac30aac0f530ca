// SPDX-License-Identifier: Apache-2.0
// Numbers as text with a decimal point, whatever the locale of the process is. printf and std::to_string write a comma
// where a host program has set a locale with one.
#pragma once

#include <charconv>
#include <string>

namespace unroll {

// The shortest text that reads back as the same number.
template <class Number>
std::string exact_text(Number value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// With so many digits at most, as printf's %.*g.
inline std::string short_text(double value, int digits) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr};
}
// With so many decimals, as printf's %.*f.
inline std::string fixed_text(double value, int decimals) {
  char text[400];  // of the largest numbers
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals).ptr};
}

}  // namespace unroll
