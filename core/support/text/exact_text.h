// SPDX-License-Identifier: Apache-2.0
// Numbers as the shortest text that reads back as the same number.
#pragma once

#include <charconv>
#include <string>

namespace unroll {

template <class Number>
std::string exact_text(Number value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace unroll
