// SPDX-License-Identifier: Apache-2.0
// Foreign text for a terminal. What could change it, or is not UTF-8, stands as \xNN: control characters, and bytes
// that begin no character.
#pragma once

#include <string>
#include <string_view>

#include "core/support/text/utf8.h"

namespace unroll {

// The character at `at`, which moves behind it.
inline void append_printable(std::string& to, std::string_view text, std::size_t& at) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  const std::size_t begin = at;
  char32_t character = 0;
  const bool is_character = next_character(text, at, character);
  if (!is_character) at = begin + 1;
  const bool is_control = character < 0x20 || (character >= 0x7f && character < 0xa0);
  if (is_character && !is_control) {
    to += text.substr(begin, at - begin);
    return;
  }
  for (const char c : text.substr(begin, at - begin)) {
    const auto byte = static_cast<unsigned char>(c);
    (to += "\\x").append({k_digits[byte >> 4], k_digits[byte & 15]});
  }
}

// The whole text; the characters in `kept` stay as they are.
inline std::string printable(std::string_view text, std::string_view kept = {}) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (kept.find(text[at]) != std::string_view::npos) result += text[at++];
    else append_printable(result, text, at);
  }
  return result;
}

}  // namespace unroll
