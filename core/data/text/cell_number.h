// SPDX-License-Identifier: Apache-2.0
// Numbers in table cells.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace unroll {

std::string_view trimmed(std::string_view cell);
// Returns the number in a cell, which may be infinite; nothing if there is none.
std::optional<double> number_in(std::string_view cell);

// The marks in the numbers of a file.
struct NumberMarks {
  char decimal = '.';
  char thousands = 0;  // 0: none; a space and an apostrophe stand for their typographic forms too
  bool operator==(const NumberMarks&) const = default;
};
std::string thousands_text(NumberMarks marks);  // as data.thousands: "none", "space", ","
// Returns the number in a cell with these marks: 1112.5 for "1.112,5".
std::optional<double> number_in(std::string_view cell, NumberMarks marks);
// Returns the number with a point and without marks of thousands; "" for other cells.
std::string plain_number(std::string_view cell, NumberMarks marks);

}  // namespace unroll
