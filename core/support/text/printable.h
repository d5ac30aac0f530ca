// SPDX-License-Identifier: Apache-2.0
// External text for a terminal. Control characters and bytes that begin no UTF-8 character become \xNN.
#pragma once

#include <string>
#include <string_view>

#include "core/support/text/utf8.h"

namespace unroll {

// Appends the character at `at`, and moves `at` past it.
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

// Returns the whole text; the characters in `kept` stay unchanged.
inline std::string printable(std::string_view text, std::string_view kept = {}) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (kept.find(text[at]) != std::string_view::npos) result += text[at++];
    else append_printable(result, text, at);
  }
  return result;
}

}  // namespace unroll
