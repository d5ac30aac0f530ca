// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/unread_columns.h"

#include <algorithm>
#include <cmath>

#include "core/data/dates/date_format.h"
#include "core/data/dates/date_words.h"
#include "core/support/text/counted.h"
#include "core/support/text/digits.h"
#include "core/support/text/in_quotes.h"

namespace unroll {

namespace {

constexpr std::size_t k_most = 4096;  // maximum number of stored names and changes

// True for usual names of a column that names series.
bool is_key_name(std::string_view column) {
  return same_word(column, "id") || same_word(column, "series") || same_word(column, "store") ||
         (column.size() > 3 && same_word(column.substr(column.size() - 3), "_id"));
}

bool is_whole(double number) { return number == std::floor(number); }

}  // namespace

void UnreadColumns::add(const CsvReader& reader, std::size_t column, const std::string& cell) {
  const std::string name = reader.header().empty() ? "" : reader.column_name(column);
  const bool named = is_date_name(name) || is_date_part_name(name), hinted = !named && hints_at_dates(name);
  const std::optional<double> number = number_in(cell);
  const std::vector<DateReading> readings = date_readings(cell, DateNumbers::yes);
  if (named || hinted || looks_like_date(cell) || (number && !readings.empty() && !is_key_name(name)))
    lookalikes_.push_back({column, named, hinted, number.has_value(), is_date_part_name(name) || !has_digit(cell), cell,
                           readings.empty() ? "" : readings[0].format.text()});
  else if (!number || is_whole(*number))
    keys_.push_back({column, number && !is_key_name(name)});
}

void UnreadColumns::forget(std::size_t column) {
  std::erase_if(lookalikes_, [&](const Lookalike& l) { return l.column == column; });
}

bool UnreadColumns::wants_rows() const {
  const auto may_name_series = [](const Key& k) { return !k.is_number && !k.returns && !k.is_busy(); };
  return !lookalikes_.empty() || std::ranges::any_of(keys_, may_name_series);
}

void UnreadColumns::see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line) {
  for (Lookalike& l : lookalikes_)
    if (!reader.is_missing(cells[l.column])) l.see(cells[l.column], line);
  for (Key& k : keys_) k.see(cells[k.column], line);
}

bool UnreadColumns::Changes::see(const std::string& cell, std::size_t line, bool first) {
  if (!first && cell == last) return false;
  last = cell;
  if (!first && lines.size() < k_most) lines.push_back(line);
  return !first;
}

bool UnreadColumns::Changes::at(std::size_t line) const { return std::ranges::binary_search(lines, line); }

void UnreadColumns::Lookalike::see(const std::string& cell, std::size_t line) {
  changes.see(cell, line, n == 0);
  if (n > 0 && again == 0 && cell == first) again = line;
  const double value = number_in(cell).value_or(std::nan(""));
  if (n == 0) start = value;
  if (n == 1) step = value - last;
  rises = rises && (n == 0 || value > last);
  even = even && (n == 0 || std::fabs(value - last - step) <= 1e-6 * std::max(std::fabs(value), std::fabs(step)));
  last = value;
  n_alike += number || named || hinted || looks_like_date(cell);
  ++n;
}

void UnreadColumns::Key::see(const std::string& cell, std::size_t line) {
  if (is_busy()) return;
  const bool changed = changes.see(cell, line, n == 0);
  returns = returns || (changed && (seen.contains(cell) || seen.size() >= k_most));
  if ((changed || n == 0) && seen.size() < k_most) seen.insert(cell);
  n_changes += changed;
  ++n;
}

std::vector<std::string> UnreadColumns::date_warnings(const CsvReader& reader) const {
  constexpr double k_small = 1000;  // evenly spaced numbers below it count rows
  std::vector<std::string> warnings;
  for (const Lookalike& l : lookalikes_) {
    const bool counts = l.number && l.even && std::fabs(l.start) < k_small;
    const bool is_readable = l.number && !l.named && !l.form.empty();
    if (counts || (l.number && !l.named && !l.rises) || !l.are_alike() || (is_readable && !l.may_be_years())) continue;
    const std::string column = "column '" + reader.column_name(l.column) + "'";
    std::string text = is_readable ? column + " rises like dates (" + in_quotes(l.first) + " as " + l.form + ")"
                                   : column + " looks like dates (" + in_quotes(l.first) + ")";
    text += " but is not read: rows count as one step apart, and their order and gaps are not checked. ";
    text += is_readable ? "Set data.date = \"" + reader.column_name(l.column) + "\" to read it"
                        : std::string("Write dates such as 2024-01-31, with four digits for the year, or give their "
                                      "format, such as data.date_format = \"%d/%m/%y\"");
    text += ", or set data.date = \"none\" to confirm";
    if (l.again > 0 && !l.part)
      text += ". " + in_quotes(l.first) + " comes again in line " + std::to_string(l.again) +
              ": if the file has several series one below the other, set data.id to the column that names them";
    warnings.push_back(text);
  }
  return warnings;
}

std::vector<std::string> UnreadColumns::series_warnings(const CsvReader& reader) const {
  constexpr std::int64_t k_rows = 3;  // minimum average rows of a series
  std::vector<std::string> warnings;
  for (const Key& k : keys_) {
    if (k.is_number || k.returns || k.n_changes == 0 || (k.n_changes + 1) * k_rows > k.n) continue;
    warnings.push_back("column '" + reader.column_name(k.column) + "' has " + counted(k.n_changes + 1, "value") +
                       ", each in rows of its own (the second one from line " + std::to_string(k.changes.lines[0]) +
                       " on): they are read as one series. If they are several, set data.id = \"" +
                       reader.column_name(k.column) + "\"");
  }
  return warnings;
}

std::string UnreadColumns::changing_at(const CsvReader& reader, std::size_t line, bool number) const {
  const auto key =
      std::ranges::find_if(keys_, [&](const Key& k) { return k.is_number == number && k.changes.at(line); });
  return key == keys_.end() ? "" : reader.column_name(key->column);
}

std::string UnreadColumns::key_at(const CsvReader& reader, std::size_t line) const {
  return changing_at(reader, line, /*number=*/false);
}

std::string UnreadColumns::number_at(const CsvReader& reader, std::size_t line) const {
  return changing_at(reader, line, /*number=*/true);
}

std::string UnreadColumns::part_of_dates(const CsvReader& reader, std::size_t line) const {
  const auto part =
      std::ranges::find_if(lookalikes_, [&](const Lookalike& l) { return l.named && l.changes.at(line); });
  return part == lookalikes_.end() ? "" : reader.column_name(part->column);
}

}  // namespace unroll
