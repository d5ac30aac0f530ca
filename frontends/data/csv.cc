// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "unroll/error.h"

namespace unroll {

namespace {

std::string_view trimmed(std::string_view s) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

std::optional<double> number_in(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() > 1 && cell[0] == '+') cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || cell.empty()) return std::nullopt;
  return value;
}

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

// One line into cells; returns the index of the cell with a quote out of place, or npos.
std::size_t split_line(std::string_view line, std::vector<std::string>& cells) {
  for (std::size_t at = 0;; ++at) {
    std::string cell;
    if (at < line.size() && line[at] == '"') {
      if (!read_quoted(line, at, cell) || (at < line.size() && line[at] != ',')) return cells.size();
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      cell = line.substr(at, end - at);
      if (cell.find('"') != std::string::npos) return cells.size();
      at = end;
    }
    cells.push_back(std::move(cell));
    if (at >= line.size()) return std::string::npos;
  }
}

bool is_header(const std::vector<std::string>& cells) {
  return std::none_of(cells.begin(), cells.end(), [](const std::string& c) { return number_in(c).has_value(); });
}

}  // namespace

void CsvReader::refuse(std::size_t line, std::size_t column, const std::string& what, const std::string& next) const {
  const std::string title = column < header_.size() ? " ('" + header_[column].substr(0, 40) + "')" : "";
  throw Error(ErrorKind::input_file, name_,
              "line " + std::to_string(line) + ", column " + std::to_string(column + 1) + title + ": " + what, next);
}

bool CsvReader::read(const Line& line, std::vector<std::string>& cells) {
  cells.clear();
  if (trimmed(line.text).empty()) return false;
  if (const std::size_t bad = split_line(line.text, cells); bad != std::string::npos)
    refuse(line.number, bad, "a quote is out of place");
  const bool first = n_columns_ == 0;
  if (first && cells.size() > max_columns_)
    refuse(line.number, max_columns_, "more than " + std::to_string(max_columns_) + " columns");
  if (first) n_columns_ = cells.size();
  if (cells.size() != n_columns_)
    refuse(line.number, std::min(cells.size(), n_columns_),
           std::to_string(cells.size()) + " cells; the first line has " + std::to_string(n_columns_));
  if (!first || !is_header(cells)) return true;
  for (std::string& cell : cells) cell = trimmed(cell);
  header_ = cells;
  return false;
}

CsvTable CsvTable::parse(std::string_view text, const std::string& name, const CsvLimits& limits) {
  CsvTable table(CsvReader(name, limits.max_columns));
  std::vector<std::string> cells;
  lines_of(text)([&](const Line& line) {
    if (!table.reader_.read(line, cells)) return;
    if (table.cells_.size() + cells.size() > limits.max_cells)
      table.reader_.refuse(line.number, 0, "more than " + std::to_string(limits.max_cells) + " cells");
    std::move(cells.begin(), cells.end(), std::back_inserter(table.cells_));
    table.lines_.push_back(line.number);
  });
  if (table.lines_.empty()) throw Error(ErrorKind::input_file, name, "holds no line of data");
  return table;
}

void index_rows(RecordFile& file, CsvReader& reader,
                const std::function<void(std::span<const std::string>, std::size_t)>& take) {
  std::vector<std::string> cells;
  file.for_each_line([&](const Line& line) {
    if (!reader.read(line, cells)) return;
    file.add(line.at);
    take(cells, line.number);
  });
  if (file.size() == 0) throw Error(ErrorKind::input_file, file.name(), "holds no line of data");
}

namespace {

std::vector<std::string> cells_in(const RecordFile& file, const CsvReader& reader, std::string_view record) {
  std::vector<std::string> cells;
  if (split_line(first_line(record), cells) != std::string::npos || cells.size() != reader.n_columns())
    file.refuse_changed();
  return cells;
}

}  // namespace

std::vector<double> numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record) {
  std::vector<double> numbers;
  for (const std::string& cell : cells_in(file, reader, record)) {
    const std::optional<double> number = number_in(cell);
    if (!number) file.refuse_changed();
    numbers.push_back(*number);
  }
  return numbers;
}

void numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record,
                std::span<const std::size_t> columns, std::span<double> numbers) {
  const std::vector<std::string> cells = cells_in(file, reader, record);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const std::string& cell = cells[columns[k]];
    const std::optional<double> number = number_in(cell);
    if (!number && !trimmed(cell).empty()) file.refuse_changed();
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
                  "Give each column of the header a name of its own");
    found = c;
  }
  if (found < n_columns_) return found;
  std::string known;
  for (const std::string& column : header_) known += (known.empty() ? "" : ", ") + column;
  throw Error(ErrorKind::usage, name_, "there is no column '" + name + "'",
              header_.empty() ? "The file has no header line; name a column by its number, 1 to " +
                                    std::to_string(n_columns_) + ", or none for the last one"
                              : "Columns: " + known);
}

std::string CsvReader::column_name(std::size_t column) const {
  return header_.empty() ? std::to_string(column + 1) : header_[column];
}

double CsvReader::number(const std::string& cell, std::size_t line, std::size_t column, Missing missing) const {
  if (trimmed(cell).empty()) {
    if (missing == Missing::as_nan) return std::numeric_limits<double>::quiet_NaN();
    refuse(line, column, "a number is missing");
  }
  const std::optional<double> value = number_in(cell);
  if (!value)
    refuse(line, column, "'" + cell.substr(0, 40) + "' is not a number",
           missing == Missing::as_nan ? "Name columns of numbers, and leave a cell empty where one is missing" : "");
  if (!std::isfinite(*value)) refuse(line, column, "'" + cell.substr(0, 40) + "' is not finite");
  return *value;
}

}  // namespace unroll
