// SPDX-License-Identifier: Apache-2.0
// Comma-separated values: cells by line, numbers by column. Errors name the line and the column.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/table/csv_lines.h"

namespace unroll {

struct CsvLimits {
  std::size_t max_columns = 65536;
  std::size_t max_cells = std::size_t{1} << 24;
};

// The rows of a file, one after the other. Cells may be quoted ("a ""b"", c"). Blank lines are skipped.
class CsvReader {
 public:
  explicit CsvReader(std::string name, std::size_t max_columns = CsvLimits{}.max_columns, CsvFormat format = {})
      : name_(std::move(name)), max_columns_(max_columns), format_(format) {}

  // What the file that follows begins with decides about its header, and about its separator where it is the first one.
  // Without this the first line decides by itself.
  void look_at(std::string_view head);
  // The cells of the next row; false when it is blank or the header. Throws Error(input_file) on a row of another width
  // than the first one, a quote out of place, too many columns, and text that is not UTF-8.
  bool read(const Line& row, std::vector<std::string>& cells);
  // The lines of another file of the same columns follow; its header, where it has one, must be the same.
  void begin_file(std::string name);
  // The cells of a row that was read before; nothing when it is another one now.
  std::optional<std::vector<std::string>> read_again(std::string_view row) const;

  const std::string& name() const { return name_; }  // of the file
  std::size_t n_columns() const { return n_columns_; }
  const std::vector<std::string>& header() const { return header_; }  // empty when there is none
  char separator() const { return format_.separator; }                // 0 before the first line
  bool is_missing(std::string_view cell) const { return format_.is_missing(cell); }
  // Lines of Task::notes() and Task::warnings() about the form of the files.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Index of a header name, of a number from 1, or of the last column for "". Throws
  // Error(usage) with the names there are, also when the header has the name twice.
  std::size_t column(const std::string& name) const;
  // A model finds its columns by their names again: throws Error(usage) when two of them have the same one.
  void refuse_repeated(std::span<const std::size_t> columns) const;
  // column() finds it. Without a header "1", "2", ...; "column 1" where the header leaves its cell empty, as in
  // an index of pandas.
  std::string column_name(std::size_t column) const;

  enum class Missing { refused, as_nan };
  // The number in a cell of this line. Throws Error(input_file) when it is not a finite number, or missing and refused.
  double number(const std::string& cell, std::size_t line, std::size_t column,
                Missing missing = Missing::refused) const;
  [[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& what,
                           const std::string& next = {}) const;
  // "900 rows, header found, columns a, b, c"
  std::string found(std::int64_t n_rows) const;
  std::string names() const;  // listed(), of the header

 private:
  bool takes_as_header(const Line& line, std::vector<std::string>& cells);
  [[noreturn]] void refuse_width(const Line& line, const std::vector<std::string>& cells) const;

  std::string name_;
  std::size_t max_columns_;
  CsvFormat format_;
  bool first_ = true;  // the next line is the first one of its file
  bool is_first_file_ = true;
  std::optional<bool> has_header_;  // the file that is read, where look_at saw it
  std::vector<std::string> notes_, warnings_;
  std::size_t n_columns_ = 0;
  std::vector<std::string> header_;
};

// All lines at once.
class CsvTable {
 public:
  using Missing = CsvReader::Missing;
  // Throws Error(input_file) as CsvReader does, on a file without a row, and above the limits.
  static CsvTable parse(std::string_view text, const std::string& name, const CsvLimits& limits = {},
                        CsvFormat format = {});

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

// A table that was read before, such as a training file.
struct KnownTable {
  bool has_header = false;     // its columns have names; otherwise numbers from 1
  std::int64_t n_columns = 0;  // 0: not known
  static KnownTable of(const CsvReader& reader) {
    return {!reader.header().empty(), static_cast<std::int64_t>(reader.n_columns())};
  }
};

// The index of each of these columns of `known` in the file of `reader`. Where both have a header, columns have the
// same names. Otherwise columns have the same places, and the file has as many columns as `known`; or, if that is
// allowed, these alone: in the order of `columns` if they have names, in the order of `known` if they have numbers.
// Throws Error(usage) on a file that fits in none of these ways.
std::vector<std::size_t> places_in(const CsvReader& reader, std::span<const std::string> columns,
                                   const KnownTable& known, bool may_be_alone = true);

// Adds each row of all files as a record, and calls `take` with its cells and line. Throws like CsvTable::parse, except
// for numbers.
void index_rows(RecordFile& file, CsvReader& reader,
                const std::function<void(std::span<const std::string> cells, std::size_t line)>& take);
// The cells of a record of such a file.
std::vector<std::string> cells_in(const RecordFile& file, const CsvReader& reader, std::string_view record);
// Of some columns, NaN where a number is missing.
void numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record,
                std::span<const std::size_t> columns, std::span<double> numbers);

}  // namespace unroll
