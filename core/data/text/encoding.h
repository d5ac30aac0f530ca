// SPDX-License-Identifier: Apache-2.0
// What the bytes of a text show when they are not UTF-8, and how to convert them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "unroll/support/export.h"

namespace unroll {

inline constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";  // U+FEFF as UTF-8

// The offset of the first byte that is not UTF-8 (overlong forms, surrogates and values above U+10FFFF are not), npos
// when there is none.
std::size_t first_not_utf8(std::string_view bytes);

// What is wrong, as "is not UTF-8 at byte 5", and what to do.
struct TextFault {
  std::string what, next;
};

// The first byte that is not UTF-8, or is NUL; nothing for text. `before`: bytes in front of these, for the message.
std::optional<TextFault> fault_in(std::string_view text, std::size_t before = 0);

// Throws Error(input_file) naming `name` when the first bytes of a file show that all of it is to be converted: UTF-16
// and UTF-32, with a byte order mark or without, NUL bytes, and lines that end in CR alone. `is_whole`: nothing follows
// them. Bytes that are not UTF-8 are left to fault_in.
UNROLL_API void require_start_of_text(std::string_view start, bool is_whole, const std::string& name);
inline constexpr std::size_t k_start_bytes = std::size_t{1} << 16;  // of a file, enough to look at

// Throws Error(usage) from `who` about a text that is not UTF-8 or has NUL bytes.
UNROLL_API void require_text(std::string_view text, std::string_view who);

// Joined files have byte order marks at the beginning of lines, and two behind a file that is empty but for its mark.
// The line without them.
inline std::string_view without_marks_before(std::string_view line) {
  while (line.starts_with(k_byte_order_mark)) line.remove_prefix(k_byte_order_mark.size());
  return line;
}
// A text of lines without them.
std::string without_marks(std::string text);

}  // namespace unroll
