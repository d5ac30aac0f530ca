// SPDX-License-Identifier: Apache-2.0
// Numbers in table cells.
#pragma once

#include <optional>
#include <string_view>

namespace unroll {

std::string_view trimmed(std::string_view cell);
// Returns the number in a cell, which may be infinite; nothing if there is none.
std::optional<double> number_in(std::string_view cell);

}  // namespace unroll
