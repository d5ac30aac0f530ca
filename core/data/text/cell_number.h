// SPDX-License-Identifier: Apache-2.0
// A cell of a table by itself.
#pragma once

#include <optional>
#include <string_view>

namespace unroll {

std::string_view trimmed(std::string_view cell);
// The number in a cell, which may be infinite; nothing when there is none.
std::optional<double> number_in(std::string_view cell);

}  // namespace unroll
