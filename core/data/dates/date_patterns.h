// SPDX-License-Identifier: Apache-2.0
// Date patterns. Fields: Y year, m month, d day, b month name, q quarter "Q1", w ISO week "W05", h hour, n minute, s
// second. Other characters stand for themselves.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/data/dates/dates.h"

namespace unroll {

inline constexpr std::string_view k_number_fields = "Ymdhns", k_name_fields = "bqw";

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

}  // namespace unroll
