// SPDX-License-Identifier: Apache-2.0
// The rows of a table, in the order of the file or sorted.
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

class SortedRows {
 public:
  SortedRows(RecordFile file, const CsvFormat& format);
  // Sorts the rows by the cells of this column, if any, in the order in which the cells first occur. Rows of equal
  // cells keep their order, or reverse it.
  void sort(std::optional<std::size_t> column, bool reversed);
  bool is_reordered() const { return !order_.empty(); }  // false: the file has this order

  using Take = std::function<void(const Line& line, std::span<const std::string> cells)>;
  // Visits all rows with a reader that has seen none.
  void for_each(CsvReader& reader, const Take& take) const;

 private:
  RecordFile file_;
  std::optional<RecordFile> records_;  // a record is a row
  CsvFormat format_;
  std::vector<std::uint32_t> order_;         // of the records, first the header, if there is one
  std::vector<std::uint32_t> line_numbers_;  // by record
};

}  // namespace unroll
