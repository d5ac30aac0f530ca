// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/data/table/first_rows.h"
#include "core/data/text/encoding.h"
#include "core/data/text/number_marks.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

void CsvReader::refuse(std::size_t line, std::size_t column, const std::string& what, const std::string& next) const {
  const bool named = column < header_.size() && !header_[column].empty();
  const std::string title = named ? " (" + in_quotes(header_[column]) + ")" : "";
  throw Error(ErrorKind::input_file, name_,
              "line " + std::to_string(line) + ", column " + std::to_string(column + 1) + title + ": " + what, next);
}

bool CsvReader::read(const Line& line, std::vector<std::string>& cells) {
  cells.clear();
  if (trimmed(line.text).empty()) return false;
  require_utf8(line, name_);
  if (skips(line)) return false;
  if (n_columns_ == 0 && line.text.find('\r') != std::string_view::npos)
    refuse_line(name_, line.number, "has a carriage return inside: lines must end in LF or CRLF",
                "Convert the file, for example with tr '\\r' '\\n'");
  if (format_.separator == 0) format_.separator = separator_of(line.text);
  if (const std::size_t bad = split_csv_line(line.text, format_.separator, cells); bad != std::string::npos)
    refuse(line.number, bad, "misplaced quote", k_close_quotes);
  if (n_columns_ == 0 && cells.size() > max_columns_)
    refuse(line.number, max_columns_, "more than " + std::to_string(max_columns_) + " columns");
  if (n_columns_ == 0) n_columns_ = cells.size();
  if (cells.size() != n_columns_) refuse_width(line, cells);
  return !std::exchange(first_, false) || !takes_as_header(line, cells);
}

// True for a comment before the table, and for the row of units below the header.
bool CsvReader::skips(const Line& line) {
  if (n_comments_ > 0 && trimmed(line.text).starts_with('#')) return n_comments_-- > 0;
  n_comments_ = 0;
  return !first_ && !units_.empty() && std::exchange(units_, "") == line.text;
}

void CsvReader::refuse_width(const Line& line, const std::vector<std::string>& cells) const {
  if (first_)
    refuse(line.number, std::min(cells.size(), n_columns_),
           "the file has " + counted(cells.size(), "column") + ", but the other file has " +
               std::to_string(n_columns_) + (header_.empty() ? "" : " (" + names() + ")") +
               "; all files need the same columns");
  const auto is_part = [](const std::string& cell) {
    return !cell.empty() && cell.find_first_not_of("0123456789") == std::string::npos;
  };
  const char* next = "Quote texts that contain the separator, remove lines above the header, or set data.separator";
  if (cells.size() < n_columns_)
    next = "Give each row all cells; a shorter sequence ends in empty cells, with data.missing = \"previous\"";
  else if (separator() == ',' && is_part(cells.back()))
    next = "Write decimals with a point, such as 12.5, and thousands without a separator; quote texts that contain a "
           "comma";
  refuse(line.number, std::min(cells.size(), n_columns_),
         counted(cells.size(), "cell") + ", but the first line has " + std::to_string(n_columns_), next);
}

void CsvReader::look_at(std::string_view head) {
  const TableForm form = form_of(head, format_);
  if (format_.separator == 0) format_.separator = form.separator;
  if (is_first_file_) {
    format_.decimal = form.marks.decimal;
    format_.thousands = form.marks.thousands;
  }
  has_header_ = form.has_header;
  n_comments_ = form.n_comments;
  units_ = form.units;
  for (const std::string& note : form.notes) notes_.push_back(name_ + ": " + note);
  for (const std::string& warning : form.warnings) warnings_.push_back(name_ + ": " + warning);
}

bool CsvReader::takes_as_header(const Line& line, std::vector<std::string>& cells) {
  std::vector<std::string> names;
  for (const std::string& cell : cells) names.emplace_back(trimmed(cell));
  const bool has_header = has_header_ ? *has_header_ : form_of(line.text, format_).has_header;
  if (!has_header && (header_.empty() || names != header_)) {
    if (!header_.empty() && format_.header != CsvFormat::Header::no)
      refuse(line.number, 0, "the file has no header; all files need that of the other file: " + this->names());
    return false;
  }
  cells = std::move(names);
  if (header_.empty() && !is_first_file_) {
    warnings_.push_back(name_ + ": its first line is read as a header, though the first file has none");
    return true;
  }
  for (std::size_t c = 0; c < cells.size(); ++c)
    if (cells[c].find('\n') != std::string::npos)
      refuse(line.number, c, "a column name has a line break", "Write each column name on one line");
  if (!header_.empty() && cells != header_) {
    const auto other = std::mismatch(cells.begin(), cells.end(), header_.begin()).first;
    refuse(line.number, other - cells.begin(),
           "the header of the other file has " + in_quotes(*other) + "; all files need the same columns");
  }
  header_ = cells;
  return true;
}

void CsvReader::begin_file(std::string name) {
  name_ = std::move(name);
  first_ = true;
  is_first_file_ = false;
  has_header_.reset();
}

std::string CsvReader::names() const {
  std::vector<std::string> names;
  for (std::size_t c = 0; c < header_.size(); ++c) names.push_back(column_name(c));
  return listed(names);
}

std::optional<std::vector<std::string>> CsvReader::read_again(std::string_view line) const {
  std::vector<std::string> cells;
  if (split_csv_line(line, format_.separator, cells) != std::string::npos || cells.size() != n_columns_) return {};
  return cells;
}

std::string CsvReader::plain(const std::string& cell) const {
  return marks() != NumberMarks{} && number_of(cell) ? plain_number(cell, marks()) : cell;
}

std::string CsvReader::found(std::int64_t n_rows) const {
  const std::string text = counted(n_rows, "row") + ", ";
  if (header_.empty()) return text + "no header, " + counted(n_columns_, "column");
  return text + "header found, columns " + names();
}

void index_rows(RecordFile& file, CsvReader& reader,
                const std::function<void(std::span<const std::string>, std::size_t)>& take) {
  std::vector<std::string> cells;
  for (std::size_t f = 0; f < file.n_files(); ++f) {
    const std::int64_t before = file.size();
    if (f > 0) reader.begin_file(file.name(f));
    reader.look_at(file.head(f));
    csv_rows(file.lines(f))([&](const Line& row) {
      if (!reader.read(row, cells)) return;
      file.add(row.at);
      take(cells, row.number);
    });
    if (file.size() == before) throw Error(ErrorKind::input_file, file.name(f), "has no data rows");
  }
}

std::vector<std::string> cells_in(const RecordFile& file, const CsvReader& reader, std::string_view record) {
  std::optional<std::vector<std::string>> cells = reader.read_again(first_csv_row(record));
  if (!cells) file.refuse_changed();
  return std::move(*cells);
}

void numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record,
                std::span<const std::size_t> columns, std::span<double> numbers) {
  const std::vector<std::string> cells = cells_in(file, reader, record);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const std::string& cell = cells[columns[k]];
    const bool missing = reader.is_missing(cell);
    const std::optional<double> number = missing ? std::nullopt : reader.number_of(cell);
    if (!number && !missing) file.refuse_changed();
    numbers[k] = number.value_or(std::numeric_limits<double>::quiet_NaN());
  }
}

std::size_t CsvReader::column(const std::string& name) const {
  if (name.empty()) return n_columns_ - 1;
  std::size_t found = n_columns_;
  for (std::size_t c = 0; c < n_columns_; ++c) {
    if (column_name(c) != name) continue;
    if (found < n_columns_)
      throw Error(ErrorKind::usage, name_,
                  "columns " + std::to_string(found + 1) + " and " + std::to_string(c + 1) + " are both '" + name + "'",
                  "Give each column a different name");
    found = c;
  }
  if (found < n_columns_) return found;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && number >= 1 && number <= n_columns_)
    return number - 1;
  throw Error(ErrorKind::usage, name_, "has no column '" + name + "'",
              header_.empty() ? "The file has no header line; give a column's number, 1 to " +
                                    std::to_string(n_columns_) + ", or set data.header = \"yes\""
                              : "Columns: " + names());
}

std::vector<std::size_t> CsvReader::columns(std::span<const std::string> names) const {
  constexpr std::string_view k_to = "..";
  std::vector<std::size_t> found;
  for (const std::string& name : names) {
    const std::size_t dots = name.find(k_to);
    bool is_range = dots != std::string::npos;
    for (std::size_t c = 0; is_range && c < n_columns_; ++c) is_range = column_name(c) != name;
    if (!is_range) {
      found.push_back(column(name));
      continue;
    }
    const std::string from = name.substr(0, dots), to = name.substr(dots + k_to.size());
    if (from.empty() || to.empty() || column(from) > column(to))
      throw Error(ErrorKind::usage, name_, "'" + name + "' is no range of columns",
                  "Write FIRST..LAST with two columns in the order of the file, by name or number");
    for (std::size_t c = column(from); c <= column(to); ++c) found.push_back(c);
  }
  return found;
}

void CsvReader::refuse_repeated(std::span<const std::size_t> columns) const {
  std::set<std::string> names;
  for (const std::size_t c : columns) {
    const std::string name = column_name(c);
    if (names.insert(name).second) continue;
    column(name);  // throws if two columns have this name
    throw Error(ErrorKind::usage, name_, "column '" + name + "' is named twice", "Name each column once");
  }
}

std::string CsvReader::column_name(std::size_t column) const {
  if (header_.empty()) return std::to_string(column + 1);
  return header_[column].empty() ? "column " + std::to_string(column + 1) : header_[column];
}

double CsvReader::number(const std::string& cell, std::size_t line, std::size_t column, Missing missing) const {
  if (is_missing(cell)) {
    if (missing == Missing::as_nan) return std::numeric_limits<double>::quiet_NaN();
    refuse(line, column, trimmed(cell).empty() ? "a number is missing" : in_quotes(cell) + ": a number is missing",
           "Fill in the number, remove the line, or set data.missing");
  }
  const std::optional<double> value = number_of(cell);
  const std::string shown = in_quotes(cell);
  if (!value && number_in(cell))
    refuse(line, column, shown + " is not a number with the decimal mark '" + marks().decimal + "'",
           "Write all numbers with the same marks, or set data.decimal and data.thousands");
  if (!value) refuse(line, column, shown + " is not a number", number_advice(cell));
  if (!std::isfinite(*value)) refuse(line, column, shown + " is not finite");
  if (!std::isfinite(static_cast<float>(*value)))
    refuse(line, column, shown + " is too large: models compute with numbers up to 3.4e38",
           "Write the column in a larger unit");
  return *value;
}

namespace {

// Finds a column by name only. CsvReader::column() would read a missing name "7" as the seventh column.
std::size_t named(const CsvReader& reader, const std::string& name) {
  std::size_t n = 0, found = 0;
  for (std::size_t c = 0; c < reader.n_columns(); ++c) {
    // Older models use the name "" for a column with an empty header cell.
    if (reader.header()[c] != name && reader.column_name(c) != name) continue;
    found = c;
    ++n;
  }
  if (n == 1) return found;
  if (n > 1) return reader.column(name);  // throws
  throw Error(ErrorKind::usage, reader.name(), "has no column " + in_quotes(name) + ", which the model reads",
              "Columns: " + reader.names());
}

std::size_t numbered(const CsvReader& reader, const std::string& number) {
  const double place = number_in(number).value_or(0);
  if (place >= 1 && place <= static_cast<double>(reader.n_columns())) return static_cast<std::size_t>(place) - 1;
  throw Error(ErrorKind::usage, reader.name(),
              "has " + counted(reader.n_columns(), "column") + "; the model reads column " + in_quotes(number),
              "Give every row all columns of the training file");
}

// Returns the index of a column in a file with only these columns.
std::size_t alone(std::span<const std::string> columns, std::size_t k, const KnownTable& known) {
  if (known.has_header) return k;
  const double number = number_in(columns[k]).value_or(0);
  return std::ranges::count_if(
      columns, [&](const std::string& other) { return number_in(other).value_or(0) < number; });
}

[[noreturn]] void refuse_places(const CsvReader& reader, std::span<const std::string> columns,
                                const KnownTable& known) {
  const std::string has = "has " + counted(reader.n_columns(), "column");
  const std::string alone = counted(columns.size(), "column");
  if (known.has_header)
    throw Error(ErrorKind::usage, reader.name(),
                has + " and no header line; the model finds its columns by name: " + listed(columns),
                "Begin the file with the header of the training file, or give only the " + alone +
                    " that the model reads, in this order");
  throw Error(ErrorKind::usage, reader.name(),
              has + "; the training file had " + std::to_string(known.n_columns) +
                  " and no header, so that columns are found by their places",
              "Give the columns of the training file, or only the " + alone + " that the model reads");
}

}  // namespace

std::vector<std::size_t> places_in(const CsvReader& reader, std::span<const std::string> columns,
                                   const KnownTable& known, bool may_be_alone) {
  const bool by_name = known.has_header && !reader.header().empty();
  const auto n_columns = static_cast<std::int64_t>(reader.n_columns());
  const bool are_alone = may_be_alone && !by_name && reader.n_columns() == columns.size();
  const bool are_all = !known.has_header && (known.n_columns == 0 || known.n_columns == n_columns);
  if (!by_name && !are_alone && !are_all) refuse_places(reader, columns, known);
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < columns.size(); ++k)
    places.push_back(by_name     ? named(reader, columns[k])
                     : are_alone ? alone(columns, k, known)
                                 : numbered(reader, columns[k]));
  return places;
}

}  // namespace unroll
