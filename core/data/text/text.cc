// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/text.h"

#include <algorithm>

#include "core/data/text/encoding.h"
#include "core/support/text/utf8.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<char32_t> decode_utf8(std::string_view bytes, const std::string& name) {
  std::vector<char32_t> text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    char32_t value = 0;
    if (!next_character(bytes, at, value)) {
      const TextFault fault = *fault_in(bytes);
      throw Error(ErrorKind::input_file, name, fault.what, fault.next);
    }
    text.push_back(value);
  }
  return text;
}

void append_utf8(std::string& to, char32_t c) {
  const auto put = [&](char32_t byte) { to.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

Vocabulary Vocabulary::of(std::span<const char32_t> text, const std::string& name) {
  std::vector<bool> seen(0x110000);
  Vocabulary v;
  for (const char32_t c : text)
    if (!seen[c]) {
      seen[c] = true;
      v.characters_.push_back(c);
    }
  if (v.characters_.size() > k_max_characters)
    throw Error(ErrorKind::input_file, name,
                "has " + std::to_string(v.characters_.size()) + " distinct characters; at most " +
                    std::to_string(k_max_characters) + " are supported");
  std::sort(v.characters_.begin(), v.characters_.end());
  return v;
}

Vocabulary Vocabulary::from_characters(std::string_view utf8, const std::string& name) {
  Vocabulary v;
  v.characters_ = decode_utf8(utf8, name);
  for (std::size_t i = 1; i < v.characters_.size(); ++i)
    if (v.characters_[i] <= v.characters_[i - 1])
      throw Error(ErrorKind::input_file, name, "the vocabulary is not in order");
  if (v.characters_.size() > k_max_characters) throw Error(ErrorKind::input_file, name, "the vocabulary is too large");
  return v;
}

std::int32_t Vocabulary::id(char32_t character) const {
  const auto at = std::lower_bound(characters_.begin(), characters_.end(), character);
  return at != characters_.end() && *at == character ? static_cast<std::int32_t>(at - characters_.begin()) : unknown();
}

std::vector<std::int32_t> Vocabulary::encode(std::span<const char32_t> text) const {
  std::vector<std::int32_t> ids(text.size());
  std::transform(text.begin(), text.end(), ids.begin(), [&](char32_t c) { return id(c); });
  return ids;
}

std::string Vocabulary::text(std::int32_t id) const {
  std::string utf8;
  append_utf8(utf8, id >= 0 && id < unknown() ? characters_[id] : U'\uFFFD');
  return utf8;
}

std::string Vocabulary::characters() const {
  std::string utf8;
  for (const char32_t c : characters_) append_utf8(utf8, c);
  return utf8;
}

}  // namespace unroll
