// SPDX-License-Identifier: Apache-2.0
// The digits 0 to 9, independent of the locale.
#pragma once

#include <algorithm>
#include <string_view>

namespace unroll {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool has_digit(std::string_view text) { return std::any_of(text.begin(), text.end(), is_digit); }

}  // namespace unroll
