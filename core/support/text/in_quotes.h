// SPDX-License-Identifier: Apache-2.0
// Foreign text in messages.
#pragma once

#include <string>
#include <string_view>

#include "core/support/text/utf8.h"

namespace unroll {

inline constexpr std::size_t k_quoted_characters = 60;

// 'text', with "..." before the second quote where it has more than 60 characters. What could change a terminal or is
// not UTF-8 stands as \xNN: control characters, and bytes that begin no character.
inline std::string in_quotes(std::string_view text) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string result = "'";
  std::size_t at = 0;
  for (std::size_t n = 0; at < text.size() && n < k_quoted_characters; ++n) {
    const std::size_t begin = at;
    char32_t character = 0;
    const bool is_character = next_character(text, at, character);
    if (!is_character) at = begin + 1;
    const bool is_control = character < 0x20 || (character >= 0x7f && character < 0xa0);
    if (is_character && !is_control) {
      result += text.substr(begin, at - begin);
      continue;
    }
    for (const char c : text.substr(begin, at - begin)) {
      const auto byte = static_cast<unsigned char>(c);
      (result += "\\x").append({k_digits[byte >> 4], k_digits[byte & 15]});
    }
  }
  return result + (at < text.size() ? "...'" : "'");
}

}  // namespace unroll
