// SPDX-License-Identifier: Apache-2.0
// The rows of a table, in the order of the file or grouped by the cells of a column.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/table/csv.h"

namespace unroll {

class GroupedRows {
 public:
  GroupedRows(RecordFile file, const CsvFormat& format);
  // Groups the rows by the cells of this column, in the order of their first rows.
  void group(std::size_t column);
  bool is_reordered() const { return !order_.empty(); }  // false: the file has this order

  using Take = std::function<void(const Line& line, std::span<const std::string> cells)>;
  // Visits all rows with a reader that has seen none.
  void for_each(CsvReader& reader, const Take& take) const;

 private:
  RecordFile file_;  // a record is a row, if rows are reordered
  CsvFormat format_;
  std::vector<std::uint32_t> order_;         // of the records: first the header, if there is one
  std::vector<std::uint32_t> line_numbers_;  // by record
};

}  // namespace unroll
