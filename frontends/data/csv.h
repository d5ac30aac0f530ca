// SPDX-License-Identifier: Apache-2.0
// Comma-separated values: cells by line, numbers by column. Errors name the line and the column.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/data/records.h"

namespace unroll {

struct CsvLimits {
  std::size_t max_columns = 65536;
  std::size_t max_cells = std::size_t{1} << 24;
};

// The lines of a file, one after the other. Cells may be quoted ("a ""b"", c"). The first line is a header when none of
// its cells is a number. Blank lines are skipped.
class CsvReader {
 public:
  explicit CsvReader(std::string name, std::size_t max_columns = CsvLimits{}.max_columns)
      : name_(std::move(name)), max_columns_(max_columns) {}

  // The cells of the next line; false when it is blank or the header. Throws Error(input_file) on a line of another
  // width than the first one, a quote out of place and too many columns.
  bool read(const Line& line, std::vector<std::string>& cells);
  std::size_t n_columns() const { return n_columns_; }
  const std::vector<std::string>& header() const { return header_; }  // empty when there is none
  // Index of a header name, in a file without a header of a number from 1, or of the last column for "". Throws
  // Error(usage) with the names there are, also when the header has the name twice.
  std::size_t column(const std::string& name) const;
  std::string column_name(std::size_t column) const;  // column() finds it

  enum class Missing { refused, as_nan };
  // The number in a cell of this line. Throws Error(input_file) when it is not a finite number, or empty and refused.
  double number(const std::string& cell, std::size_t line, std::size_t column,
                Missing missing = Missing::refused) const;
  [[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& what,
                           const std::string& next = {}) const;

 private:
  std::string name_;
  std::size_t max_columns_;
  std::size_t n_columns_ = 0;
  std::vector<std::string> header_;
};

// All lines at once.
class CsvTable {
 public:
  using Missing = CsvReader::Missing;
  // Throws Error(input_file) as CsvReader does, on a file without a row, and above the limits.
  static CsvTable parse(std::string_view text, const std::string& name, const CsvLimits& limits = {});

  std::size_t n_rows() const { return lines_.size(); }
  std::size_t n_columns() const { return reader_.n_columns(); }
  const std::vector<std::string>& header() const { return reader_.header(); }
  std::size_t column(const std::string& name) const { return reader_.column(name); }
  std::string column_name(std::size_t column) const { return reader_.column_name(column); }
  double number(std::size_t row, std::size_t column, Missing missing = Missing::refused) const {
    return reader_.number(cells_[row * n_columns() + column], lines_[row], column, missing);
  }

 private:
  explicit CsvTable(CsvReader reader) : reader_(std::move(reader)) {}

  CsvReader reader_;
  std::vector<std::string> cells_;   // [rows, columns]
  std::vector<std::size_t> lines_;   // [rows] line in the file, from 1
};

// Each row becomes a record of the file, and is shown: its cells and its line. Throws as CsvTable::parse but for cells.
void index_rows(RecordFile& file, CsvReader& reader,
                const std::function<void(std::span<const std::string> cells, std::size_t line)>& take);
// The numbers of a record of such a file, all of which must be there.
std::vector<double> numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record);
// Of some columns, NaN where none is there.
void numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record,
                std::span<const std::size_t> columns, std::span<double> numbers);

}  // namespace unroll
