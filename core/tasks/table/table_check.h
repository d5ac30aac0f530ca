// SPDX-License-Identifier: Apache-2.0
// Checks of tables: numeric cells, rows of features with targets.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/data/table/csv.h"
#include "core/tasks/check/row_checks.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// Checks cells that must be numbers. Faults are grouped by column and advice.
class NumberCheck {
 public:
  explicit NumberCheck(bool gaps_allowed)
      : missing_(gaps_allowed ? CsvReader::Missing::as_nan : CsvReader::Missing::refused) {}
  // Returns the number in a cell, or NaN.
  double see(const CsvReader& reader, const std::string& cell, std::size_t line, std::size_t column);
  void report(DataChecker& checker) const;
  bool all_read() const { return bad_ == 0; }

 private:
  struct Fault {
    std::size_t column;
    std::string next, first;  // the advice, and the reader's message for the first cell
    std::int64_t n = 0;
  };
  CsvReader::Missing missing_;
  std::int64_t bad_ = 0, empty_ = 0;
  std::vector<Fault> faults_;  // the first ones
};

using TakeTargets = std::function<void(std::span<const std::string> targets, Split split)>;
// `take` receives the target cells of each row; `finish` adds the findings about them.
DataCheck check_table_rows(const TableRowsOptions& options, std::span<const std::string> targets,
                           std::shared_ptr<const Vfs::Reader> file, const std::string& name, const TakeTargets& take,
                           const std::function<void(DataChecker&)>& finish);

}  // namespace unroll
