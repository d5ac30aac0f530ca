// SPDX-License-Identifier: Apache-2.0
// Words of a POSIX shell: of the commands that messages print, and of those that are run.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace unroll {

// The word as a shell reads it back: as it is where no character of it means anything to a shell, else in quotes.
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
