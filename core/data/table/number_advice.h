// SPDX-License-Identifier: Apache-2.0
// Advice for a cell that is not a number.
#pragma once

#include <string>
#include <string_view>

namespace unroll {

// Returns advice for the notation of the cell: "Write decimals with a point, ...".
std::string number_advice(std::string_view cell);

}  // namespace unroll
