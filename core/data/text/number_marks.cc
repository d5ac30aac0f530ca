// SPDX-License-Identifier: Apache-2.0
#include "core/data/text/number_marks.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <set>
#include <system_error>

#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"

namespace unroll {

namespace {

constexpr NumberMarks k_marks[] = {  // the first of those that read all numbers is used; below, bits of them
    {'.', 0},   {',', 0},    {'.', ','},  {',', '.'}, {'.', ' '},
    {',', ' '}, {'.', '\''}, {',', '\''}, {'.', '_'}, {',', '_'},
};
constexpr unsigned k_point = 1, k_comma = 2, k_comma_of_thousands = 4, k_point_of_thousands = 8, k_blanks = 16 | 32,
                   k_decimal_points = 1 | 4 | 16 | 64 | 256;

// The marks with which all cells of a column are numbers.
struct ColumnMarks {
  unsigned fits = ~0U;
  std::size_t n = 0, n_small = 0, n_long = 0;  // cells; integers of at most three digits, and of more
  std::string example;                         // the longest cell with a mark

  void see(const std::string& cell) {
    if (fits == 0) return;
    const std::size_t point = cell.find('.');
    const bool has_point = point != std::string::npos;
    const bool is_usual = number_in(cell) && (!has_point || cell.size() != point + 4);  // unlike 1.234
    unsigned of_cell = !is_usual ? 0 : has_point ? k_decimal_points : ~0U;
    for (std::size_t k = 0; k < std::size(k_marks) && !is_usual; ++k)
      if (number_in(cell, k_marks[k])) of_cell |= 1U << k;
    if (n == 0 && of_cell == 0) return;  // such as a unit
    fits &= of_cell;
    ++n;
    const bool is_plain = cell.find_first_not_of("-0123456789") == std::string::npos;
    const bool is_small = is_plain && cell.size() <= (cell.starts_with('-') ? 4U : 3U);
    n_small += is_small;
    n_long += is_plain && !is_small;
    if (!is_plain && cell.size() > example.size()) example = cell;
  }
  // True if numbers below 1000 have no mark, and all others have one.
  bool is_grouped() const { return n_small > 0 && n_long == 0 && n - n_small >= 3; }
};

// True if the digits of a column may be decimals, or thousands, of the previous column.
bool may_be_decimals(const CellRows& rows, std::size_t column) {
  std::set<std::string> different;
  std::set<std::size_t> widths;
  bool has_zero_first = false;
  for (const auto& cells : rows) {
    const std::string& cell = cells[column];
    if (cell.empty() || cell.find_first_not_of("0123456789") != std::string::npos) return false;
    different.insert(cell);
    widths.insert(cell.size());
    has_zero_first = has_zero_first || (cell.size() > 1 && cell[0] == '0');
  }
  constexpr std::size_t k_few = 5;  // labels repeat, decimals rarely do
  const bool is_even = widths.size() == 1 && *widths.begin() <= 3;
  return has_zero_first || (is_even && different.size() >= std::min(rows.size(), k_few));
}
bool are_integers(const CellRows& rows, std::size_t column) {
  double before = 0;
  bool counts = true;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string_view cell = rows[r][column];
    const std::string_view digits = cell.starts_with('-') ? cell.substr(1) : cell;
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return false;
    const double number = number_in(cell).value_or(0);
    counts = counts && (r == 0 || number == before + 1);
    before = number;
  }
  return !counts;  // 1, 2, 3, ... are row numbers
}

bool has_any(std::string_view cell, std::string_view characters) {
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
  if (!has_any(cell, "0123456789")) return false;
  return cell.starts_with('(') || cell.ends_with('-') || cell.ends_with('+') || cell.starts_with("+-") ||
         cell.starts_with("--") || cell.starts_with("-+") || cell.starts_with("++") || cell.starts_with("- ");
}
bool has_unit(std::string_view cell) { return has_any(cell, "0123456789"); }

struct Notation {
  bool (*is)(std::string_view cell);
  const char* next;
};
constexpr Notation k_notations[] = {  // the first match applies
    {is_out_of_range, "Numbers lie between 1e-308 and 1e308. Write 0, or the column in another unit"},
    {has_comma, "Write decimals with a point, such as 12.5, and thousands without a separator, such as 1234, or set "
                "data.decimal = \",\" or data.thousands = \",\""},
    {is_hexadecimal, "Write the number with decimal digits"},
    {has_groups, "Write thousands without a separator, such as 1234, or set data.thousands"},
    {has_sign_elsewhere, "Write one sign, before the number, such as -5"},
    {has_other_digits, "Write the number with the digits 0 to 9, a point and a hyphen, such as -12.5"},
    {has_unit, "Write the number alone, without a unit, a currency or %. Other columns are left out with data.columns"},
};

}  // namespace

FoundMarks find_marks(const CellRows& rows, const std::function<bool(std::string_view)>& is_missing,
                      std::optional<char> decimal, std::optional<char> thousands) {
  const FoundMarks given{{decimal.value_or('.'), thousands.value_or(0)}, "", ""};
  if ((decimal && thousands) || rows.empty()) return given;
  std::vector<ColumnMarks> columns(rows[0].size());
  for (const auto& cells : rows)
    for (std::size_t c = 0; c < cells.size(); ++c)
      if (!is_missing(cells[c])) columns[c].see(cells[c]);
  unsigned fits = (1U << std::size(k_marks)) - 1;
  std::string example;
  for (const ColumnMarks& c : columns) {
    if (c.fits == 0 || c.n == 0) continue;
    fits &= c.fits;
    if (c.example.size() > example.size()) example = c.example;
  }
  for (std::size_t k = 0; k < std::size(k_marks); ++k)
    if ((decimal && k_marks[k].decimal != *decimal) || (thousands && k_marks[k].thousands != *thousands))
      fits &= ~(1U << k);
  const auto is_grouped = [](const ColumnMarks& c) { return c.fits != 0 && c.is_grouped(); };
  const auto grouped = std::ranges::find_if(columns, is_grouped);
  const bool any_grouped = grouped != columns.end();
  if ((fits & k_point) != 0 && any_grouped && (grouped->fits & k_point_of_thousands) != 0 && !thousands)
    return {given.marks, "", "column " + std::to_string(grouped - columns.begin() + 1) + " has " +
                                 in_quotes(grouped->example) + ", which is read as a decimal. If the point separates "
                                 "thousands, set data.thousands = \".\" and data.decimal = \",\""};
  if (fits == 0 || (fits & k_point) != 0) return given;
  // 1,112 alone can be 1.112 or 1112, and 1 112 can be two columns.
  if ((fits & k_comma) != 0 && (fits & k_comma_of_thousands) != 0) fits = any_grouped ? k_comma_of_thousands : 0;
  else if ((fits & ~k_blanks) == 0 && columns.size() == 1 && !any_grouped) fits = 0;
  if (fits == 0) return given;
  const NumberMarks marks = k_marks[std::countr_zero(fits)];
  return {marks, in_quotes(example) + " is read as " + plain_number(example, marks) + " (data.decimal = \"" +
                     marks.decimal + "\", data.thousands = \"" + thousands_text(marks) + "\")",
          ""};
}

std::string split_decimals(const CellRows& rows) {
  if (rows.size() < 3) return "";
  std::size_t pair = std::string::npos;
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    if (!are_integers(rows, c)) continue;
    if (c + 1 == rows[0].size() || !may_be_decimals(rows, c + 1)) return "";
    if (pair == std::string::npos) pair = c;
    ++c;
  }
  if (pair == std::string::npos) return "";
  const std::string &whole = rows[0][pair], &part = rows[0][pair + 1];
  return in_quotes(whole + "," + part) + " in the first row is read as two columns, " + whole + " and " + part +
         ". If it is one number, write it as " + whole + "." + part +
         ", or without a separator of thousands; if it is two, set data.separator = \",\"";
}

std::string number_advice(std::string_view cell) {
  cell = trimmed(cell);
  for (const Notation& notation : k_notations)
    if (notation.is(cell)) return notation.next;
  return "Name the columns of numbers in data.columns. A word that stands for a missing value is listed in "
         "data.missing_values";
}

}  // namespace unroll
