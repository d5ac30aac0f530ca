// SPDX-License-Identifier: Apache-2.0
// Texts as tests build them and look into them.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace unroll::testing {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
// The same; a message shows the text that lacks the part.
inline bool mentions(const std::string& text, const std::string& part) {
  if (contains(text, part)) return true;
  MESSAGE("no '" << part << "' in: " << text);
  return false;
}
inline std::string repeated(const std::string& part, std::size_t n) {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += part;
  return text;
}

}  // namespace unroll::testing
