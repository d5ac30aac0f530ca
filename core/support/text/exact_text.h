// SPDX-License-Identifier: Apache-2.0
// Numbers as text with a decimal point, independent of the process's locale. printf and std::to_string write a comma if
// the host program has set such a locale.
#pragma once

#include <charconv>
#include <string>

namespace unroll {

// Returns the shortest text that reads back as the same number.
template <class Number>
std::string exact_text(Number value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// Formats with at most `digits` significant digits, as printf's %.*g.
inline std::string short_text(double value, int digits) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr};
}
// Formats with `decimals` decimals, as printf's %.*f.
inline std::string fixed_text(double value, int decimals) {
  char text[400];  // enough for the largest numbers
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals).ptr};
}

}  // namespace unroll
