// SPDX-License-Identifier: Apache-2.0
// External text in messages.
#pragma once

#include <string>
#include <string_view>

#include "core/support/text/printable.h"

namespace unroll {

inline constexpr std::size_t k_quoted_characters = 60;

// Returns 'text' in printable characters; texts above 60 characters are cut and end in "...".
inline std::string in_quotes(std::string_view text) {
  std::string result = "'";
  std::size_t at = 0;
  for (std::size_t n = 0; at < text.size() && n < k_quoted_characters; ++n) append_printable(result, text, at);
  return result + (at < text.size() ? "...'" : "'");
}

}  // namespace unroll
