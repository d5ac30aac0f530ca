// SPDX-License-Identifier: Apache-2.0
// Date patterns: text with fields. A backslash stands before a letter that is no field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/data/dates/dates.h"

namespace unroll {

// A field of a pattern: its directive of strptime and its name in notes.
struct DateField {
  char field;
  char directive;  // 0: none
  std::string_view name;
};
inline constexpr DateField k_fields[] = {
    {'Y', 'Y', "YYYY"}, {'y', 'y', "YY"},      // years 1969 to 2068
    {'z', 0, "YY"},                            // years 1900 to 1999
    {'m', 'm', "MM"},   {'d', 'd', "DD"},      {'j', 'j', "DDD"},  // day of the year
    {'b', 'b', "Mon"},  {'B', 'B', "Mon"},     {'a', 'a', "Day"},  {'A', 'A', "Day"},  // names
    {'q', 0, "Qq"},     {'Q', 0, "qQ"},        // "Q1", "1Q"
    {'Y', 'G', "YYYY"}, {'w', 0, "Www"},       {'v', 'V', "ww"},   {'u', 'u', "D"},  // ISO week "W05", "05", its day
    {'h', 'H', "hh"},   {'i', 'I', "hh"},      {'p', 'p', "AM"},   // hour of 24, of 12
    {'n', 'M', "mm"},   {'s', 'S', "ss"},      {'f', 'f', "ffffff"},
    {'o', 'z', "+hh:mm"},  // offset from UTC
};
inline constexpr std::string_view k_number_fields = "Yyzmdjvuhinsf", k_name_fields = "bBqQwaA", k_mark_fields = "po";

// Numbers that are dates, by their digits. `unit`: microseconds per count since 1970; 0: a pattern of digits.
struct NumberForm {
  std::size_t digits;
  std::string_view pattern;
  std::int64_t unit;
  std::int64_t per_micro = 1;  // counts per microsecond
};
inline constexpr NumberForm k_numbers[] = {
    {4, "Y", 0},
    {6, "Ym", 0},
    {7, "Yj", 0},
    {8, "Ymd", 0},
    {10, "Ymdh", 0},
    {12, "Ymdhn", 0},
    {14, "Ymdhns", 0},
    {9, "unix seconds", k_second},
    {10, "unix seconds", k_second},
    {13, "unix milliseconds", 1000},
    {16, "unix microseconds", 1},
    {19, "unix nanoseconds", 1, 1000},
};
// Returns the form of numbers since 1970 with this pattern, or null.
inline const NumberForm* unix_form(std::string_view pattern) {
  for (const NumberForm& form : k_numbers)
    if (form.unit > 0 && form.pattern == pattern) return &form;
  return nullptr;
}

inline bool has(std::string_view set, char c) { return set.find(c) != std::string_view::npos; }

// Translates a format with directives of strptime. Throws Error(usage) on an unknown one.
std::string pattern_of_directives(const std::string& form);

// Calls `take(c, is_literal)` for each character of a pattern.
template <class Take>
void for_each_character(std::string_view pattern, const Take& take) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool escaped = pattern[i] == '\\' && i + 1 < pattern.size();
    take(pattern[escaped ? ++i : i], escaped);
  }
}
// True if the pattern has one of these fields.
inline bool has_field(std::string_view pattern, std::string_view fields) {
  bool found = false;
  for_each_character(pattern, [&](char c, bool literal) { found = found || (!literal && has(fields, c)); });
  return found && unix_form(pattern) == nullptr;
}

}  // namespace unroll
