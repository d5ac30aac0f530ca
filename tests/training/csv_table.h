// SPDX-License-Identifier: Apache-2.0
// All rows of a CSV in memory.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/data/table/csv.h"
#include "core/data/text/encoding.h"
#include "unroll/support/error.h"

namespace unroll::testing {

struct CsvTableLimits {
  std::size_t max_columns = CsvLimits{}.max_columns;
  std::size_t max_cells = std::size_t{1} << 24;
};

class CsvTable {
 public:
  using Missing = CsvReader::Missing;
  // Throws Error(input_file) like CsvReader, on a file without rows, and above the limits.
  static CsvTable parse(std::string_view text, const std::string& name, const CsvTableLimits& limits = {},
                        CsvFormat format = {}) {
    require_start_of_text(text.substr(0, k_start_bytes), text.size() <= k_start_bytes, name);
    CsvTable table(CsvReader(name, limits.max_columns, std::move(format)));
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
  std::vector<std::string> cells_;  // [rows, columns]
  std::vector<std::size_t> lines_;  // [rows] line in the file, from 1
};

}  // namespace unroll::testing
