// SPDX-License-Identifier: Apache-2.0
// Text as characters: strict UTF-8, and the character vocabulary of a training split.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

// Throws Error(input_file), which names `name` and the offset of the first invalid byte.
std::vector<char32_t> decode_utf8(std::string_view bytes, const std::string& name);
void append_utf8(std::string& to, char32_t character);

// Characters in code point order have the ids 0, 1, ...; the last id is the unknown character.
class Vocabulary {
 public:
  static constexpr std::size_t k_max_characters = 65536;

  // Collects the characters in `text`. Throws Error(input_file) above k_max_characters distinct ones.
  static Vocabulary of(std::span<const char32_t> text, const std::string& name);
  // Reads characters() from model metadata. Throws Error(input_file) if they are not strictly ascending.
  static Vocabulary from_characters(std::string_view utf8, const std::string& name);

  std::int64_t size() const { return std::ssize(characters_) + 1; }
  std::int32_t unknown() const { return static_cast<std::int32_t>(characters_.size()); }
  std::int32_t id(char32_t character) const;
  std::vector<std::int32_t> encode(std::span<const char32_t> text) const;
  std::string text(std::int32_t id) const;  // UTF-8; U+FFFD for unknown()
  std::string characters() const;           // all of them as UTF-8

 private:
  std::vector<char32_t> characters_;
};

}  // namespace unroll
