// SPDX-License-Identifier: Apache-2.0
// What to do about a cell that is no number.
#pragma once

#include <string>
#include <string_view>

namespace unroll {

// By the notation of the cell: "Write decimals with a point, ...".
std::string number_advice(std::string_view cell);

}  // namespace unroll
