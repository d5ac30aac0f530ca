// SPDX-License-Identifier: Apache-2.0
// Words of a POSIX shell, for printed and executed commands.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace unroll {

// Returns the word as a shell reads it back: unchanged if no character is special, otherwise in quotes.
inline std::string shell_word(std::string_view word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & 0x80) != 0 ||
           std::string_view("_-./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace unroll
