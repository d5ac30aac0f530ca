// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/first_rows.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <span>

#include "core/data/dates/date_format.h"
#include "core/data/text/number_marks.h"
#include "core/support/text/counted.h"
#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/utf8.h"

namespace unroll {

namespace {

constexpr std::size_t k_most_rows = 200;
using Cells = std::vector<std::string>;

// Statistics of a column below its cell in the first line.
struct Column {
  std::string first = {};
  bool first_quoted = false;
  std::size_t n = 0, n_numbers = 0, n_decimals = 0, n_dates = 0, n_missing = 0, n_quoted = 0;  // of the rows below
  std::size_t n_same_form = 0;  // cells equal to the first one, or of its form
  bool rises = true;            // numbers, each above the previous one
  double last = -HUGE_VAL;
  std::set<std::string> different = {};

  bool is_numeric() const { return n > 0 && 2 * n_numbers >= n; }
  bool is_dates() const { return n > 0 && 2 * n_dates >= n; }
  bool is_text() const { return n > 0 && n_numbers + n_dates == 0; }
};

// Replaces runs of digits by 9 and runs of letters by a: "week 12" and "week 3" have the same form.
std::string form_of_cell(std::string_view cell) {
  std::string form;
  for (const char c : cell) {
    const auto byte = static_cast<unsigned char>(c);
    const char kind = std::isdigit(byte) ? '9' : std::isalpha(byte) ? 'a' : c;
    if (form.empty() || form.back() != kind || (kind != '9' && kind != 'a')) form += kind;
  }
  return form;
}

// True for non-ASCII characters in numbers: superscripts, fractions, Arabic, Devanagari and full-width digits, the
// minus sign, currencies, and the no-break space.
bool is_of_numbers(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range k_ranges[] = {{0xB2, 0xB3},     {0xB9, 0xB9},     {0xBC, 0xBE},     {0x660, 0x669},
                                {0x6F0, 0x6F9},   {0x966, 0x96F},   {0x2150, 0x215F}, {0x2212, 0x2212},
                                {0xFF10, 0xFF19}, {0xA2, 0xA5},     {0x20A0, 0x20BF}, {0xA0, 0xA0}};
  return std::any_of(std::begin(k_ranges), std::end(k_ranges),
                     [c](const Range& r) { return c >= r.first && c <= r.last; });
}

// True for a number in an unsupported notation, such as $5, 12,5 or 1 234. Without a letter it is not a name.
bool looks_like_value(std::string_view cell) {
  if (cell.starts_with("0x") || cell.starts_with("0X")) return true;
  const bool may_have_exponent = has_digit(cell);
  for (std::size_t at = 0; at < cell.size();) {
    char32_t c = 0;
    if (!next_character(cell, at, c)) return false;
    const bool is_letter = c < 0x80 ? std::isalpha(static_cast<unsigned char>(c)) != 0 : !is_of_numbers(c);
    if (is_letter && !(may_have_exponent && (c == 'e' || c == 'E'))) return false;
  }
  return !cell.empty();
}

bool is_calendar_date(std::string_view cell) { return !number_in(cell) && is_date_in_digits(cell); }

struct FirstRows {
  std::vector<Column> columns;
  std::vector<Cells> below;
  std::string second;  // the row below the first one
  FoundMarks marks;

  // Reads the rows behind `n_comments` lines. Chooses the separator if `format` has none.
  FirstRows(std::string_view head, CsvFormat& format, std::size_t n_comments) {
    std::vector<std::vector<bool>> quoted_below;
    std::size_t n_rows = 0;
    csv_rows(lines_of(head))([&](const Line& row) {
      Cells cells;
      std::vector<bool> quoted;
      if (n_rows > k_most_rows || trimmed(row.text).empty()) return;
      if (n_comments > 0) {
        --n_comments;
        return;
      }
      if (format.separator == 0) format.separator = separator_of(row.text);
      if (split_csv_line(row.text, format.separator, cells, &quoted) != std::string::npos) return;
      for (std::string& cell : cells) cell = trimmed(cell);
      for (std::size_t c = 0; c < cells.size() && n_rows == 0; ++c) columns.push_back({cells[c], quoted[c]});
      if (n_rows++ == 0) return;
      if (cells.size() != columns.size()) return;
      if (n_rows == 2) second = row.text;
      below.push_back(std::move(cells));
      quoted_below.push_back(std::move(quoted));
    });
    marks = find_marks(below, [&](std::string_view cell) { return format.is_missing(cell); }, format.decimal,
                       format.thousands);
    for (std::size_t r = 0; r < below.size(); ++r) add(below[r], quoted_below[r], format);
  }

  void add(const Cells& cells, const std::vector<bool>& quoted, const CsvFormat& format) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      Column& column = columns[c];
      const std::string& cell = cells[c];
      if (format.is_missing(cell)) {
        ++column.n_missing;
        continue;
      }
      const std::optional<double> number = number_in(cell, marks.marks);
      ++column.n;
      column.n_numbers += number.has_value();
      column.n_decimals += number && cell.find_first_of(".,eE") != std::string::npos;
      column.n_dates += is_calendar_date(cell);
      column.n_quoted += quoted[c];
      const bool same_form = has_digit(cell) && form_of_cell(cell) == form_of_cell(column.first);
      column.n_same_form += same_form || cell == column.first;
      column.rises = column.rises && number && *number > column.last;
      column.last = number.value_or(HUGE_VAL);
      column.different.insert(cell);
    }
  }
};

// Strength of the evidence for column names in a cell, or in the whole line.
enum class Strength : std::uint8_t { none, hint, weak, strong };
struct Evidence {
  Strength strength = Strength::none;
  std::string_view why = {};
};

constexpr std::size_t k_some = 4;  // minimum number of significant rows

Evidence of_number(const Column& c) {
  if (c.is_dates()) return {Strength::strong, "it has a number above dates"};
  if (c.first_quoted && c.n_quoted == 0 && c.is_numeric())
    return {Strength::strong, "its numbers are in quotes, those below are not"};
  if (c.is_text() && c.n >= k_some) return {Strength::weak, "it has a number above text"};
  return {};
}

Evidence of_text(const Column& c) {
  if (looks_like_value(c.first)) return {};
  if (c.is_numeric() || c.is_dates()) return {Strength::strong, "it has text above numbers or dates"};
  if (c.n >= k_some && 2 * c.different.size() <= c.n) return {Strength::hint, "its text occurs in no other row"};
  return {};
}

Evidence evidence_of(const Column& c, const CsvFormat& format) {
  if (c.n == 0) return {};
  if (c.first.empty())
    return c.n_missing == 0 && (c.rises || c.is_dates() || c.is_text())
               ? Evidence{Strength::weak, "it has an empty cell above an index"}
               : Evidence{};
  if (format.is_missing(c.first)) return {};
  if (number_in(c.first)) return of_number(c);
  if (is_date_in_digits(c.first))
    return c.is_numeric() ? Evidence{Strength::strong, "it has dates above numbers"} : Evidence{};
  return of_text(c);
}

// True if the numbers of a row, two or more, are consecutive integers.
bool is_consecutive(std::span<const double> numbers) {
  for (std::size_t i = 1; i < numbers.size(); ++i)
    if (numbers[i] != numbers[i - 1] + 1) return false;
  return !numbers.empty() && std::floor(numbers[0]) == numbers[0];
}
std::vector<double> numbers_of(const Cells& cells) {
  std::vector<double> numbers;
  for (const std::string& cell : cells)
    if (const auto number = number_in(cell)) numbers.push_back(*number);
  return numbers;
}

// Returns the evidence from all numbers of the first line together.
Evidence of_line(const FirstRows& rows, const CsvFormat& format) {
  Cells first;
  bool integers_above_decimals = true, years_above_others = true, any_number_below = false;
  std::size_t n_missing = 0, n_least = k_most_rows;
  for (const Column& c : rows.columns) {
    first.push_back(c.first);
    n_missing += format.is_missing(c.first);
    const auto number = number_in(c.first);
    if (!number || !c.is_numeric()) continue;
    any_number_below = true;
    n_least = std::min(n_least, c.n);
    integers_above_decimals = integers_above_decimals && c.first.find_first_of(".eE") == std::string::npos &&
                              c.n_decimals == c.n_numbers;
    const auto is_year = [](double v) { return v >= 1800 && v <= 2100 && std::floor(v) == v; };
    years_above_others = years_above_others && is_year(*number) &&
                         std::none_of(c.different.begin(), c.different.end(),
                                      [&](const std::string& cell) { return is_year(number_in(cell).value_or(0)); });
  }
  const std::vector<double> numbers = numbers_of(first);
  const std::size_t n = numbers.size();
  if (n_missing == first.size()) return {Strength::hint, "it has only empty or missing cells"};
  if (n == 0 || rows.below.empty()) return {};
  const bool others_too = std::any_of(rows.below.begin(), rows.below.end(), [&](const Cells& cells) {
    const std::vector<double> below = numbers_of(cells);
    return below.size() == n && is_consecutive(below);
  });
  const bool consecutive = is_consecutive(numbers) && !others_too;
  if (consecutive && n > 2 && (numbers[0] == 0 || numbers[0] == 1))
    return {Strength::strong, "its numbers are consecutive"};
  if (rows.columns[0].first.empty() && rows.columns[0].n_missing == 0 && numbers[0] == 0 && (n == 1 || consecutive))
    return {Strength::strong, "it has an empty cell, then consecutive numbers"};
  if (!any_number_below) return {};
  constexpr std::size_t k_many = 20;  // rows after which a missing decimal point is no coincidence
  if (integers_above_decimals && n_least >= k_many && (n > 1 || rows.columns[0].first == "0"))
    return {Strength::weak, "it has integers above decimals"};
  if (consecutive && n > 1 && years_above_others) return {Strength::weak, "it has years above other numbers"};
  if (consecutive && n > 2) return {Strength::weak, "its numbers are consecutive"};
  if (consecutive && n == 2 && numbers[0] == 0 && number_in(rows.below[0][0]) != 1.0)
    return {Strength::hint, "its numbers are consecutive"};
  if (rows.columns.size() == 1 && rows.columns[0].first == "0" && !rows.columns[0].different.contains("0"))
    return {Strength::hint, "it is 0, as the header of a column without a name is"};
  return {};
}

// Rule without evidence: true if all cells are names, or empty like the header of an index.
bool are_names(const FirstRows& rows, const CsvFormat& format) {
  bool named = false;
  for (const Column& c : rows.columns) {
    if (c.first.empty()) continue;
    if (number_in(c.first) || format.is_missing(c.first) || is_date_in_digits(c.first) || looks_like_value(c.first))
      return false;
    named = true;
  }
  return named;
}

std::string shown_first(const FirstRows& rows) {
  constexpr std::size_t k_shown = 6;
  std::string text;
  for (std::size_t c = 0; c < std::min(rows.columns.size(), k_shown); ++c)
    text += (c > 0 ? "," : "") + rows.columns[c].first;
  return "the first line, " + in_quotes(text + (rows.columns.size() > k_shown ? ",..." : "")) + ", is read as ";
}

// True if the first line has the names of a model's columns. A column without a name uses its number.
bool has_names(const FirstRows& rows, const CsvFormat& format) {
  const auto is_there = [&](const std::string& name) {
    for (std::size_t c = 0; c < rows.columns.size(); ++c) {
      const std::string& cell = rows.columns[c].first;
      if (cell == name || (cell.empty() && name == "column " + std::to_string(c + 1))) return true;
    }
    return false;
  };
  return !format.names.empty() && std::all_of(format.names.begin(), format.names.end(), is_there);
}

void decide_header(TableForm& form, const FirstRows& rows, const CsvFormat& format) {
  form.has_header = has_names(rows, format);
  if (form.has_header) return;
  Evidence best = of_line(rows, format);
  const bool some = std::any_of(rows.columns.begin(), rows.columns.end(), [](auto& c) { return !c.first.empty(); });
  std::size_t n_for = best.strength == Strength::strong, n_against = 0;
  for (const Column& c : rows.columns) {
    if (!c.first.empty() && !number_in(c.first) && c.n_same_form > 0) ++n_against;
    else if (const Evidence e = some ? evidence_of(c, format) : Evidence{}; e.strength > Strength::none) {
      n_for += e.strength == Strength::strong;
      if (e.strength > best.strength) best = e;
    }
  }
  const bool names = are_names(rows, format);
  const std::string because = "because " + std::string(best.why);
  form.has_header = best.strength == Strength::strong ? n_for > n_against
                    : n_against > 0                   ? false
                                                      : best.strength == Strength::weak || names;
  if (form.has_header) {
    if (names && n_against == 0) return;  // the note on the columns lists them
    const std::string text = shown_first(rows) + "a header " + because;
    if (best.strength == Strength::strong && n_against == 0)
      form.notes.push_back(text + "; data.header = \"no\" reads it as a row");
    else
      form.warnings.push_back(text + ". Set data.header = \"no\" if it is a row, else \"yes\"");
  } else if (best.strength > Strength::none && (best.strength > Strength::hint || n_against == 0)) {
    form.warnings.push_back(shown_first(rows) + "a row, although " + std::string(best.why) +
                            ". Set data.header = \"yes\" if it has column names, else \"no\"");
  }
}

// True if the row below the header has units, such as (kWh): texts above numbers or dates, and no number or date.
bool has_units(const FirstRows& rows, const CsvFormat& format) {
  constexpr std::size_t k_longest = 12, k_least_rows = 4;
  if (rows.below.size() < k_least_rows) return false;
  bool any = false;
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    const Column& column = rows.columns[c];
    const std::string& cell = rows.below[0][c];
    if (cell.empty()) continue;
    const bool in_brackets = std::string_view("([{").find(cell.front()) != std::string_view::npos && cell.size() > 2;
    const bool is_text = !number_in(cell, rows.marks.marks) && date_readings(cell).empty() && !format.is_missing(cell);
    if (!is_text || column.n_numbers + column.n_dates + 1 < column.n || column.n < 2) return false;
    if (!in_brackets && (rows.columns.size() == 1 || cell.size() > k_longest)) return false;
    any = any || column.n_numbers > 0;
  }
  return any;
}

TableForm form_below(std::string_view head, CsvFormat format, std::size_t n_comments) {
  using Header = CsvFormat::Header;
  const bool guesses = format.separator == 0;
  const FirstRows rows(head, format, n_comments);
  TableForm form;
  form.separator = format.separator;
  form.n_comments = n_comments;
  form.n_columns = rows.columns.size();
  form.marks = rows.marks.marks;
  if (rows.columns.empty()) return form;
  if (format.header == Header::automatic) decide_header(form, rows, format);
  else form.has_header = format.header == Header::yes;
  if (format.separator == ',' && guesses && !form.has_header) {
    Cells first;
    for (const Column& c : rows.columns) first.push_back(c.first);
    std::vector<Cells> all{first};
    all.insert(all.end(), rows.below.begin(), rows.below.end());
    if (std::string warning = split_decimals(all); !warning.empty()) form.warnings.push_back(std::move(warning));
  }
  if (!rows.marks.note.empty()) form.notes.push_back(rows.marks.note);
  if (format.separator == ';' && !rows.marks.warning.empty()) form.warnings.push_back(rows.marks.warning);
  if (form.has_header && has_units(rows, format)) {
    form.units = rows.second;
    form.notes.push_back("the row below the header, " + in_quotes(form.units) + ", has units and is skipped");
  }
  return form;
}

}  // namespace

// A line after # that has as many cells as the values below it is their header.
TableForm form_of(std::string_view head, CsvFormat format) {
  std::size_t n = 0;
  bool begins = true;
  std::string last;
  lines_of(head)([&](const Line& line) {
    begins = begins && (trimmed(line.text).empty() || trimmed(line.text).starts_with('#'));
    if (!begins || trimmed(line.text).empty()) return;
    ++n;
    last = line.text;
  });
  TableForm form = form_below(head, format, n);
  std::vector<std::string> names;
  const bool has_names = split_csv_line(last, form.separator, names) == std::string::npos;
  CsvFormat guess = format;
  guess.header = CsvFormat::Header::automatic;
  if (n > 0 && format.header != CsvFormat::Header::no && has_names && names.size() == form.n_columns &&
      !form_below(head, guess, n).has_header)
    form = form_below(head, format, n - 1);
  if (form.n_comments > 0) form.notes.push_back(counted(form.n_comments, "comment") + " before the table skipped");
  return form;
}

}  // namespace unroll
