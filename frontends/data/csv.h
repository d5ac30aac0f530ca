// SPDX-License-Identifier: Apache-2.0
// Comma-separated values: cells by line, numbers by column. Errors name the line and the column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unroll {

struct CsvLimits {
  std::size_t max_columns = 65536;
  std::size_t max_cells = std::size_t{1} << 24;
};

class CsvTable {
 public:
  // Cells may be quoted ("a ""b"", c"). The first line is a header when none of its cells is a number. Blank lines are
  // skipped. Throws Error(input_file) on an empty file, lines of differing width, a quote out of place and anything
  // above the limits.
  static CsvTable parse(std::string_view text, const std::string& name, const CsvLimits& limits = {});

  std::size_t n_rows() const { return lines_.size(); }
  std::size_t n_columns() const { return n_columns_; }
  const std::vector<std::string>& header() const { return header_; }  // empty when there is none
  // Index of a header name, in a file without a header of a number from 1, or of the last column for "". Throws
  // Error(usage) with the names there are, also when the header has the name twice.
  std::size_t column(const std::string& name) const;
  std::string column_name(std::size_t column) const;  // column() finds it

  enum class Missing { refused, as_nan };
  // The number in a cell. Throws Error(input_file) when it is not a finite number, or empty and refused.
  double number(std::size_t row, std::size_t column, Missing missing = Missing::refused) const;

 private:
  [[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& what,
                           const std::string& next = {}) const;

  std::string name_;
  std::size_t n_columns_ = 0;
  std::vector<std::string> header_;
  std::vector<std::string> cells_;   // [rows, columns]
  std::vector<std::size_t> lines_;   // [rows] line in the file, from 1
};

}  // namespace unroll
