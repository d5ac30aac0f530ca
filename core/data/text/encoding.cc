// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/encoding.h"

#include <algorithm>
#include <array>

#include "core/support/text/utf8.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct Mark {
  std::string_view bytes, encoding;
};
// UTF-32 first, because its mark begins with the mark of UTF-16.
constexpr Mark k_marks[] = {
    {{"\xFF\xFE\0\0", 4}, "UTF-32"}, {{"\0\0\xFE\xFF", 4}, "UTF-32"}, {"\xFF\xFE", "UTF-16"}, {"\xFE\xFF", "UTF-16"}};

std::string convert_from(std::string_view encoding) {
  return "Convert it: iconv -f " + std::string(encoding) + " -t UTF-8 OLD > NEW";
}

bool is_high(char c) { return (c & 0x80) != 0; }
bool is_between(char c, unsigned low, unsigned high) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

// Shift-JIS text has runs of two-byte characters, mostly kana and common kanji, which begin with 0x81 to 0x9F.
bool looks_like_shift_jis(std::string_view bytes) {
  std::size_t usual = 0, other = 0, in_runs = 0, run = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    if (is_between(bytes[at], 0xA1, 0xDF)) {  // half-width katakana
      ++other;
      ++at;
    } else if (is_high(bytes[at])) {
      const bool is_pair = is_between(bytes[at], 0x81, 0xFC) && bytes[at] != '\xA0' && at + 1 < bytes.size() &&
                           is_between(bytes[at + 1], 0x40, 0xFC) && bytes[at + 1] != '\x7F';
      if (!is_pair) return at + 1 == bytes.size() && usual > other;  // the last character may be truncated
      ++(is_between(bytes[at], 0x81, 0x9F) ? usual : other);
      in_runs += ++run > 1;
      at += 2;
      continue;
    } else {
      ++at;
    }
    run = 0;
  }
  return usual > other && 2 * in_runs > usual;
}

// Non-ASCII letters of Western languages are isolated; in texts of other scripts they are adjacent.
bool looks_western(std::string_view bytes) {
  std::size_t high = 0, neighbors = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    high += is_high(bytes[at]);
    neighbors += at > 0 && is_high(bytes[at]) && is_high(bytes[at - 1]);
  }
  return 2 * neighbors <= high;
}

std::string how_to_convert(std::string_view bytes) {
  if (looks_like_shift_jis(bytes)) return "It looks like Shift-JIS. " + convert_from("SHIFT_JIS");
  if (!looks_western(bytes))
    return "Its encoding may be GB18030, BIG5, EUC-JP, EUC-KR, WINDOWS-1251 or KOI8-R. Convert it from the right one: "
           "iconv -f ENCODING -t UTF-8 OLD > NEW";
  const bool has_windows = std::any_of(bytes.begin(), bytes.end(), [](char c) { return is_between(c, 0x80, 0x9F); });
  return has_windows ? "It looks like Windows-1252. " + convert_from("WINDOWS-1252")
                     : "It looks like Latin-1. " + convert_from("LATIN1");
}

// Detects UTF-16 and UTF-32 without a byte order mark. In any language, blanks and line ends have their NUL bytes at
// the same position within a character.
std::optional<std::string_view> encoding_by_zeros(std::string_view bytes) {
  std::array<std::size_t, 4> zeros{}, all{};
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    ++all[at % 4];
    zeros[at % 4] += bytes[at] == '\0';
  }
  const auto full = [&](std::size_t place) { return all[place] > 0 && zeros[place] == all[place]; };
  if (full(2) && full(3)) return "UTF-32LE";
  if (full(0) && full(1)) return "UTF-32BE";
  std::string rest;
  std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(rest), [](char c) { return c != '\0'; });
  const std::size_t even = zeros[0] + zeros[2], odd = zeros[1] + zeros[3];
  // In UTF-16 of ASCII text every second byte is NUL. Other UTF-16 text may have few NULs, but is not UTF-8 without
  // them.
  const bool is_utf8 = first_not_utf8(rest) == std::string_view::npos;
  const std::size_t least = std::max<std::size_t>(is_utf8 ? bytes.size() / 3 : bytes.size() / 64, 1);
  if (odd >= least && odd > 8 * even) return "UTF-16LE";
  if (even >= least && even > 8 * odd) return "UTF-16BE";
  return std::nullopt;
}

TextFault fault_of_zeros(std::string_view bytes, std::size_t at) {
  const std::string what = "has a NUL byte at byte " + std::to_string(at + 1);
  std::string rest(bytes);
  std::erase(rest, '\0');
  return first_not_utf8(rest) == std::string_view::npos
             ? TextFault{what, "Remove such bytes: tr -d '\\000' < OLD > NEW"}
             : TextFault{what + ", and is not a text", "Name a text file; export a table as CSV"};
}

std::optional<TextFault> fault_at_start(std::string_view start, bool is_whole) {
  for (const Mark& mark : k_marks)
    if (start.starts_with(mark.bytes))
      return TextFault{"is " + std::string(mark.encoding) + ", not UTF-8", convert_from(mark.encoding)};
  if (const std::size_t zero = start.find('\0'); zero != std::string_view::npos) {
    if (const auto encoding = encoding_by_zeros(start))
      return TextFault{"looks like " + std::string(*encoding) + " without a byte order mark, and is not UTF-8",
                       convert_from(*encoding)};
    return fault_of_zeros(start, zero);
  }
  const std::size_t cr = start.find('\r');
  if (start.find('\n') == std::string_view::npos && cr < start.find_last_not_of('\r') + 1 &&
      (is_whole || start.size() >= k_start_bytes))
    return TextFault{"has lines that end in a carriage return alone, the first one at byte " + std::to_string(cr + 1),
                     "Convert the line ends: tr '\\r' '\\n' < OLD > NEW"};
  return std::nullopt;
}

}  // namespace

std::size_t first_not_utf8(std::string_view bytes) {
  char32_t value = 0;
  for (std::size_t at = 0; at < bytes.size();)
    if (!next_character(bytes, at, value)) return at;
  return std::string_view::npos;
}

std::optional<TextFault> fault_in(std::string_view text, std::size_t before) {
  const std::size_t bad = first_not_utf8(text), zero = text.find('\0');
  if (zero < bad) return fault_of_zeros(text.substr(0, bad), before + zero);
  if (bad == std::string_view::npos) return std::nullopt;
  constexpr std::size_t k_shown_to_guess = 4096;
  const std::size_t from = text.rfind('\n', bad) + 1;  // 0 if there is none
  return TextFault{"is not UTF-8 at byte " + std::to_string(before + bad + 1),
                   how_to_convert(text.substr(from, bad - from + k_shown_to_guess))};
}

void require_start_of_text(std::string_view start, bool is_whole, const std::string& name) {
  if (const auto fault = fault_at_start(start, is_whole))
    throw Error(ErrorKind::input_file, name, fault->what, fault->next);
}

void require_text(std::string_view text, std::string_view who) {
  if (const auto fault = fault_in(text)) throw Error(ErrorKind::usage, who, "the text " + fault->what, fault->next);
}

std::string without_marks(std::string text) {
  for (std::size_t at = text.find(k_byte_order_mark); at != std::string::npos; at = text.find(k_byte_order_mark, at))
    if (at == 0 || text[at - 1] == '\n') text.erase(at, k_byte_order_mark.size());
    else at += k_byte_order_mark.size();
  return text;
}

}  // namespace unroll
