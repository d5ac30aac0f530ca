// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 text (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace unroll {

// Length of the sequence that a byte starts, its payload, and the least value that needs this length; 0: no start byte.
struct Utf8Lead {
  std::size_t length;
  char32_t payload, least;
};
constexpr Utf8Lead utf8_lead(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xC0 && byte < 0xE0) return {2, static_cast<char32_t>(byte & 0x1F), 0x80};
  if (byte >= 0xE0 && byte < 0xF0) return {3, static_cast<char32_t>(byte & 0x0F), 0x800};
  if (byte >= 0xF0 && byte < 0xF8) return {4, static_cast<char32_t>(byte & 0x07), 0x10000};
  return {0, 0, 0};
}

constexpr bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Reads the character at `at` and moves `at` past it. Returns false, with `at` unchanged, if there is none.
constexpr bool next_character(std::string_view bytes, std::size_t& at, char32_t& value) {
  const Utf8Lead lead = utf8_lead(static_cast<unsigned char>(bytes[at]));
  if (lead.length == 0 || bytes.size() - at < lead.length) return false;
  char32_t code = lead.payload;
  for (std::size_t k = 1; k < lead.length; ++k) {
    if (!continues_character(bytes[at + k])) return false;
    code = code << 6 | (static_cast<unsigned char>(bytes[at + k]) & 0x3F);
  }
  if (code < lead.least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  value = code;
  at += lead.length;
  return true;
}

}  // namespace unroll
