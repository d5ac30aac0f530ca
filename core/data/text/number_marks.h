// SPDX-License-Identifier: Apache-2.0
// Decimal marks and marks of thousands, found in the first rows of a table, and advice for cells that are no numbers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/text/cell_number.h"

namespace unroll {

using CellRows = std::vector<std::vector<std::string>>;

struct FoundMarks {
  NumberMarks marks;
  std::string note;     // "'1.112,5' is read as 1112.5 (...)"; "" for numbers without marks
  std::string warning;  // about points that may separate thousands, such as 1.234 next to 980
};
// Returns the marks with which all columns of numbers can be read, or none if several can and give other numbers.
// `decimal` and `thousands` are known marks; 0 thousands: none.
FoundMarks find_marks(const CellRows& rows, const std::function<bool(std::string_view)>& is_missing,
                      std::optional<char> decimal, std::optional<char> thousands);

// Returns a warning about decimal commas such as 12,5 that separate the cells of a file without a header: pairs of
// integer columns, the second with decimals. All other columns must be dates, texts or row numbers. "": there are none.
std::string split_decimals(const CellRows& rows);

// Returns advice for a cell that is not a number: "Write decimals with a point, ...".
std::string number_advice(std::string_view cell);

}  // namespace unroll
