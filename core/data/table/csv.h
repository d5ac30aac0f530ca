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
};

// Reads the rows of a file in order. Cells may be quoted ("a ""b"", c"). Blank lines are skipped.
class CsvReader {
 public:
  explicit CsvReader(std::string name, std::size_t max_columns = CsvLimits{}.max_columns, CsvFormat format = {})
      : name_(std::move(name)), max_columns_(max_columns), format_(format) {}

  // Determines the header from the first rows of the next file, and the separator if it is the first file. Without this
  // call the first line alone determines them.
  void look_at(std::string_view head);
  // Reads the cells of the next row; false if it is blank or the header. Throws Error(input_file) on a row of another
  // width than the first one, a misplaced quote, too many columns, and text that is not UTF-8.
  bool read(const Line& row, std::vector<std::string>& cells);
  // Call before the lines of another file. It must have the same columns, and the same header if it has one.
  void begin_file(std::string name);
  // Reads a row again; returns nothing if its number of cells has changed.
  std::optional<std::vector<std::string>> read_again(std::string_view row) const;

  const std::string& name() const { return name_; }  // name of the file
  std::size_t n_columns() const { return n_columns_; }
  const std::vector<std::string>& header() const { return header_; }  // empty if there is none
  char separator() const { return format_.separator; }                // 0 before the first line
  bool is_missing(std::string_view cell) const { return format_.is_missing(cell); }
  NumberMarks marks() const { return {format_.decimal.value_or('.'), format_.thousands.value_or(0)}; }
  // Returns the number in a cell; nothing if there is none.
  std::optional<double> number_of(std::string_view cell) const { return number_in(cell, marks()); }
  // Returns a number with a point and without marks of thousands; other cells as they are.
  std::string plain(const std::string& cell) const;
  // Lines of Task::notes() and Task::warnings() about the format of the files.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Returns the index of a header name, of a number from 1, or of the last column for "". Throws Error(usage), with the
  // existing names, on an unknown or repeated name.
  std::size_t column(const std::string& name) const;
  // The columns of the names; "a..f" is a range from one column to another, unless a column has this name.
  std::vector<std::size_t> columns(std::span<const std::string> names) const;
  // Throws Error(usage) if two of the columns have the same name, because a model finds its columns by name.
  void refuse_repeated(std::span<const std::size_t> columns) const;
  // Returns the name that column() finds. Without a header: "1", "2", ... "column 1" for an empty header cell, such as
  // the index of pandas.
  std::string column_name(std::size_t column) const;

  enum class Missing { refused, as_nan };
  // Returns the number in a cell. Throws Error(input_file) if it is not a finite number, or missing and refused.
  double number(const std::string& cell, std::size_t line, std::size_t column,
                Missing missing = Missing::refused) const;
  [[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& what,
                           const std::string& next = {}) const;
  // Returns "900 rows, header found, columns a, b, c".
  std::string found(std::int64_t n_rows) const;
  std::string names() const;  // listed(header)

 private:
  bool skips(const Line& line);
  bool takes_as_header(const Line& line, std::vector<std::string>& cells);
  [[noreturn]] void refuse_width(const Line& line, const std::vector<std::string>& cells) const;

  std::string name_;
  std::size_t max_columns_;
  CsvFormat format_;
  bool first_ = true;  // the next line is the first line of its file
  bool is_first_file_ = true;
  std::optional<bool> has_header_;  // of the current file, if look_at() determined it
  std::size_t n_comments_ = 0;      // that may follow
  std::string units_;               // a row of units that may follow
  std::vector<std::string> notes_, warnings_;
  std::size_t n_columns_ = 0;
  std::vector<std::string> header_;
};

// A table that was read before, such as the training file.
struct KnownTable {
  bool has_header = false;     // true: columns have names; false: numbers from 1
  std::int64_t n_columns = 0;  // 0: unknown
  static KnownTable of(const CsvReader& reader) {
    return {!reader.header().empty(), static_cast<std::int64_t>(reader.n_columns())};
  }
};

// Returns the index of each of these columns of `known` in the file of `reader`. If both have a header, columns match
// by name. Otherwise they match by position, and the file has as many columns as `known`. If `may_be_alone`, the file
// may instead have only these columns: in the order of `columns` if they have names, in the order of `known` if they
// have numbers. Throws Error(usage) on any other file.
std::vector<std::size_t> places_in(const CsvReader& reader, std::span<const std::string> columns,
                                   const KnownTable& known, bool may_be_alone = true);

// Adds each row of all files as a record, and calls `take` with its cells and line. Throws like CsvReader::read, and
// on a file without rows.
void index_rows(RecordFile& file, CsvReader& reader,
                const std::function<void(std::span<const std::string> cells, std::size_t line)>& take);
// Returns the cells of a record of such a file.
std::vector<std::string> cells_in(const RecordFile& file, const CsvReader& reader, std::string_view record);
// Reads the numbers of the given columns; NaN if missing.
void numbers_in(const RecordFile& file, const CsvReader& reader, std::string_view record,
                std::span<const std::size_t> columns, std::span<double> numbers);

}  // namespace unroll
