// SPDX-License-Identifier: Apache-2.0
#include "core/data/scores/words.h"

#include "core/data/text/encoding.h"
#include "core/data/text/text.h"

namespace unroll {

namespace {

// True for the 29 characters that Python's str.split() splits at.
bool is_blank(char32_t c) {
  constexpr char32_t k_single[] = {0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || (c >= 0x2000 && c <= 0x200A) ||
         std::find(std::begin(k_single), std::end(k_single), c) != std::end(k_single);
}

// Decodes UTF-8. Byte models may write invalid UTF-8: such a byte counts as U+FFFD.
std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> characters;
  while (!text.empty()) {
    const std::size_t bad = std::min(first_not_utf8(text), text.size());
    const std::vector<char32_t> good = decode_utf8(text.substr(0, bad), "text_scores");
    characters.insert(characters.end(), good.begin(), good.end());
    if (bad < text.size()) characters.push_back(0xFFFD);
    text.remove_prefix(std::min(bad + 1, text.size()));
  }
  return characters;
}

}  // namespace

Words unicode_words(std::string_view text) {
  Words words;
  bool open = false;
  for (const char32_t c : characters_of(text)) {
    if (is_blank(c)) {
      open = false;
      continue;
    }
    if (!open) words.emplace_back();
    append_utf8(words.back(), c);
    open = true;
  }
  return words;
}

std::u32string without_blanks(std::string_view text) {
  std::u32string result;
  for (const char32_t c : characters_of(text))
    if (!is_blank(c)) result += c;
  return result;
}

}  // namespace unroll
