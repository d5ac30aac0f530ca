// SPDX-License-Identifier: Apache-2.0
// Lists of texts as one text, as in model metadata: one entry per line, with \n for a newline and \\ for a backslash.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/export.h"

namespace unroll {

std::string entry_lines(std::span<const std::string> entries);

// Visits the entries in order. The last line may lack its newline.
void for_each_entry(std::string_view lines, const std::function<void(std::string)>& visit);
UNROLL_API std::vector<std::string> entries_of(std::string_view lines);

}  // namespace unroll
