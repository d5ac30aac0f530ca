// SPDX-License-Identifier: Apache-2.0
// Data rows for `data check`: the records of the data files with split and line, one at a time.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/data/batch/records.h"
#include "core/tasks/check/row_checks.h"
#include "core/tasks/common/task_parts.h"

namespace unroll {

// Runs a check; errors of the readers become findings.
DataCheck checked(const std::function<void(DataChecker&)>& check);

// The rows of a task by split, from the records indexed in `file`.
class DataRows {
 public:
  DataRows(const RecordFile& file, SplitRows rows);
  struct Row {
    std::string_view record;
    Split split;
    std::size_t line;
  };
  void for_each(const std::function<void(const Row&)>& take) const;
  const std::vector<std::int64_t>& train() const { return rows_[0]; }
  void count(DataChecker& checker) const;

 private:
  const RecordFile& file_;
  SplitRows rows_;
  std::vector<Split> splits_;       // by record
  std::vector<std::size_t> lines_;  // by record
};

}  // namespace unroll
