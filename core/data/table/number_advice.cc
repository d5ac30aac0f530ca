// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/number_advice.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

#include "core/data/text/cell_number.h"
#include "core/support/text/digits.h"

namespace unroll {

namespace {

bool has(std::string_view cell, std::string_view characters) {
  return cell.find_first_of(characters) != std::string_view::npos;
}
// True if one of the characters occurs between two digits.
bool has_inside(std::string_view cell, std::string_view characters) {
  for (std::size_t i = 1; i + 1 < cell.size(); ++i)
    if (characters.find(cell[i]) != characters.npos && is_digit(cell[i - 1]) && is_digit(cell[i + 1])) return true;
  return false;
}

bool is_out_of_range(std::string_view cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc::result_out_of_range && end == cell.data() + cell.size();
}
bool has_other_digits(std::string_view cell) {
  return std::any_of(cell.begin(), cell.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}
bool has_comma(std::string_view cell) { return has_inside(cell, ","); }
bool is_hexadecimal(std::string_view cell) {
  return cell.find("0x") != std::string_view::npos || cell.find("0X") != std::string_view::npos;
}
bool has_groups(std::string_view cell) {
  return has_inside(cell, " '_") || std::count(cell.begin(), cell.end(), '.') > 1;
}
bool has_sign_elsewhere(std::string_view cell) {
  if (!has(cell, "0123456789")) return false;
  return cell.starts_with('(') || cell.ends_with('-') || cell.ends_with('+') || cell.starts_with("+-") ||
         cell.starts_with("--") || cell.starts_with("-+") || cell.starts_with("++") || cell.starts_with("- ");
}
bool has_unit(std::string_view cell) { return has(cell, "0123456789"); }

struct Notation {
  bool (*is)(std::string_view cell);
  const char* next;
};
constexpr Notation k_notations[] = {  // the first match applies
    {is_out_of_range, "Numbers lie between 1e-308 and 1e308. Write 0, or the column in another unit"},
    {has_comma, "Write decimals with a point, such as 12.5, and thousands without a separator, such as 1234"},
    {is_hexadecimal, "Write the number with decimal digits"},
    {has_groups, "Write thousands without a separator, such as 1234"},
    {has_sign_elsewhere, "Write one sign, before the number, such as -5"},
    {has_other_digits, "Write the number with the digits 0 to 9, a point and a hyphen, such as -12.5"},
    {has_unit, "Write the number alone, without a unit, a currency or %. Other columns are left out with data.columns"},
};

}  // namespace

std::string number_advice(std::string_view cell) {
  cell = trimmed(cell);
  for (const Notation& notation : k_notations)
    if (notation.is(cell)) return notation.next;
  return "Name the columns of numbers in data.columns. A word that stands for a missing value is listed in "
         "data.missing_values";
}

}  // namespace unroll
