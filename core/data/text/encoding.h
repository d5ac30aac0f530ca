// SPDX-License-Identifier: Apache-2.0
// Detection of the encoding of a text that is not UTF-8, and conversion advice.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "unroll/support/export.h"

namespace unroll {

inline constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";  // U+FEFF as UTF-8

// Returns the offset of the first invalid UTF-8 byte (including overlong forms, surrogates and values above U+10FFFF);
// npos if none.
std::size_t first_not_utf8(std::string_view bytes);

// An encoding error, such as "is not UTF-8 at byte 5", and the advice.
struct TextFault {
  std::string what, next;
};

// Finds the first byte that is not UTF-8 or is NUL; returns nothing for valid text. `before`: number of preceding
// bytes, for the message.
std::optional<TextFault> fault_in(std::string_view text, std::size_t before = 0);

// Throws Error(input_file), which names `name`, if the first bytes show that the whole file needs conversion: UTF-16
// and UTF-32, with or without a byte order mark, NUL bytes, and lines that end in CR alone. `is_whole`: there are no
// further bytes. fault_in reports other invalid bytes.
UNROLL_API void require_start_of_text(std::string_view start, bool is_whole, const std::string& name);
inline constexpr std::size_t k_start_bytes = std::size_t{1} << 16;  // of a file, enough for the detection

// Throws Error(usage) from `who` if a text is not UTF-8 or has NUL bytes.
UNROLL_API void require_text(std::string_view text, std::string_view who);

// Returns the line without leading byte order marks. Concatenated files have marks at the start of lines, and two marks
// after a file that consists of its mark.
inline std::string_view without_marks_before(std::string_view line) {
  while (line.starts_with(k_byte_order_mark)) line.remove_prefix(k_byte_order_mark.size());
  return line;
}
// Returns a text without the marks of its lines.
std::string without_marks(std::string text);

}  // namespace unroll
