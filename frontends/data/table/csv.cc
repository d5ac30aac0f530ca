// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/table/csv.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "frontends/data/table/first_rows.h"
#include "frontends/data/table/number_advice.h"
#include "frontends/data/text/encoding.h"
#include "unroll/error.h"

namespace unroll {

CsvFormat CsvFormat::of(const std::string& header, const std::string& separator,
                        const std::vector<std::string>& missing_values) {
  CsvFormat format;
  format.missing = missing_values;
  if (header == "yes") format.header = Header::yes;
  else if (header == "no") format.header = Header::no;
  else if (header != "auto")
    throw Error(ErrorKind::usage, "header", "must be auto, yes or no; got " + in_quotes(header));
  if (separator == "tab") format.separator = '\t';
  else if (separator.size() == 1 && separator[0] != '"' && separator[0] != '\n' && separator[0] != '\r')
    format.separator = separator[0];
  else if (!separator.empty())
    throw Error(ErrorKind::usage, "separator", "must be one character; got " + in_quotes(separator),
                "Write for example \",\", \";\" or \"tab\"");
  return format;
}

namespace {

// A quoted cell from its opening quote on; `at` moves behind the closing one. False when there is none.
bool read_quoted(std::string_view line, std::size_t& at, std::string& cell) {
  for (++at; at < line.size(); ++at) {
    if (line[at] != '"') {
      cell.push_back(line[at]);
    } else if (at + 1 < line.size() && line[at + 1] == '"') {
      cell.push_back(line[at++]);
    } else {
      ++at;
      return true;
    }
  }
  return false;
}

}  // namespace

namespace {

bool has_odd_quotes(std::string_view text) { return std::count(text.begin(), text.end(), '"') % 2 == 1; }

}  // namespace

// A row with an odd number of quotes ends inside a quoted cell, or has a misplaced one and is refused when it is split.
std::optional<Line> CsvRows::add(const Line& line) {
  const bool odd = has_odd_quotes(line.text);
  if (!open_ && !odd) return line;
  if (!open_) {
    first_ = line;
    joined_ = line.text;
  } else {
    joined_ += '\n';
    joined_ += line.text;
  }
  open_ = open_ != odd;
  if (open_ && joined_.size() <= k_max_row) return std::nullopt;
  open_ = false;
  return Line{joined_, first_.number, first_.at};
}

std::optional<Line> CsvRows::rest() {
  if (!std::exchange(open_, false)) return std::nullopt;
  return Line{joined_, first_.number, first_.at};
}

Lines csv_rows(Lines lines) {
  return [lines = std::move(lines)](const std::function<void(const Line&)>& take) {
    CsvRows rows;
    lines([&](const Line& line) {
      if (const std::optional<Line> row = rows.add(line)) take(*row);
    });
    if (const std::optional<Line> row = rows.rest()) take(*row);
  };
}

std::string first_csv_row(std::string_view text) {
  const std::string_view line = first_line(text);
  if (!has_odd_quotes(line)) return std::string(line);
  std::optional<std::string> first;
  csv_rows(lines_of(text))([&](const Line& row) {
    if (!first) first = row.text;
  });
  return std::move(*first);
}

std::size_t split_csv_line(std::string_view line, char separator, std::vector<std::string>& cells,
                           std::vector<bool>* quoted) {
  for (std::size_t at = 0;; ++at) {
    std::string cell;
    if (quoted) quoted->push_back(at < line.size() && line[at] == '"');
    if (at < line.size() && line[at] == '"') {
      if (!read_quoted(line, at, cell) || (at < line.size() && line[at] != separator)) return cells.size();
    } else {
      const std::size_t end = std::min(line.find(separator, at), line.size());
      cell = line.substr(at, end - at);
      if (cell.find('"') != std::string::npos) return cells.size();
      at = end;
    }
    cells.push_back(std::move(cell));
    if (at >= line.size()) return std::string::npos;
  }
}

std::string listed(std::span<const std::string> names) {
  constexpr std::size_t k_shown = 8;
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), k_shown)))
    text += (text.empty() ? "" : ", ") + name;
  return names.size() > k_shown ? text + ", ... (" + std::to_string(names.size()) + ")" : text;
}

char separator_of(std::string_view line) {
  for (const char separator : {'\t', ';'}) {
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == separator && !quoted) return separator;
    }
  }
  return ',';
}

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

void CsvReader::refuse_width(const Line& line, const std::vector<std::string>& cells) const {
  if (first_)
    refuse(line.number, std::min(cells.size(), n_columns_),
           "the file has " + counted(cells.size(), "column") + ", but the other file has " +
               std::to_string(n_columns_) + (header_.empty() ? "" : " (" + names() + ")") +
               "; all files need the same columns");
  const auto is_part = [](const std::string& cell) {
    return !cell.empty() && cell.find_first_not_of("0123456789") == std::string::npos;
  };
  const bool may_have_commas = cells.size() > n_columns_ && separator() == ',' && is_part(cells.back());
  refuse(line.number, std::min(cells.size(), n_columns_),
         counted(cells.size(), "cell") + ", but the first line has " + std::to_string(n_columns_),
         may_have_commas ? "Write decimals with a point, such as 12.5, and thousands without a separator; quote texts "
                           "that contain a comma"
                         : "Quote texts that contain the separator, remove lines above the header, or set "
                           "data.separator");
}

void CsvReader::look_at(std::string_view head) {
  const TableForm form = form_of(head, format_);
  if (format_.separator == 0) format_.separator = form.separator;
  has_header_ = form.has_header;
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
    refuse(line.number, static_cast<std::size_t>(other - cells.begin()),
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

std::string CsvReader::found(std::int64_t n_rows) const {
  const std::string text = counted(n_rows, "row") + ", ";
  if (header_.empty()) return text + "no header, " + counted(n_columns_, "column");
  return text + "header found, columns " + names();
}

CsvTable CsvTable::parse(std::string_view text, const std::string& name, const CsvLimits& limits,
                         CsvFormat format) {
  require_start_of_text(text.substr(0, k_start_bytes), text.size() <= k_start_bytes, name);
  CsvTable table(CsvReader(name, limits.max_columns, format));
  std::vector<std::string> cells;
  table.reader_.look_at(text);
  csv_rows(lines_of(text))([&](const Line& line) {
    if (!table.reader_.read(line, cells)) return;
    if (table.cells_.size() + cells.size() > limits.max_cells)
      table.reader_.refuse(line.number, 0, "more than " + std::to_string(limits.max_cells) + " cells");
    std::move(cells.begin(), cells.end(), std::back_inserter(table.cells_));
    table.lines_.push_back(line.number);
  });
  if (table.lines_.empty()) throw Error(ErrorKind::input_file, name, "has no data rows");
  return table;
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
    const std::optional<double> number = missing ? std::nullopt : number_in(cell);
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

void CsvReader::refuse_repeated(std::span<const std::size_t> columns) const {
  std::set<std::string> names;
  for (const std::size_t c : columns) {
    const std::string name = column_name(c);
    if (names.insert(name).second) continue;
    column(name);  // two columns of this name?
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
  const std::optional<double> value = number_in(cell);
  const std::string shown = in_quotes(cell);
  if (!value) refuse(line, column, shown + " is not a number", number_advice(cell));
  if (!std::isfinite(*value)) refuse(line, column, shown + " is not finite");
  if (!std::isfinite(static_cast<float>(*value)))
    refuse(line, column, shown + " is too large: models compute with numbers up to 3.4e38",
           "Write the column in a larger unit");
  return *value;
}

}  // namespace unroll
