// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/check/data_rows.h"

#include "unroll/support/error.h"

namespace unroll {

DataCheck checked(const std::function<void(DataChecker&)>& check) {
  DataChecker checker;
  try {
    check(checker);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file && e.kind() != ErrorKind::usage) throw;
    checker.error("file", e.what());
  }
  return checker.take();
}

DataRows::DataRows(const RecordFile& file, SplitRows rows)
    : file_(file),
      rows_(std::move(rows)),
      splits_(file.size(), Split::train),
      lines_(file.line_numbers()) {
  for (const Split split : {Split::validation, Split::test})
    for (const std::int64_t row : rows_[split]) splits_[row] = split;
}

void DataRows::for_each(const std::function<void(const Row&)>& take) const {
  file_.for_each([&](std::int64_t record, std::string_view text) {
    take({text, splits_[record], lines_[record]});
  });
}

void DataRows::count(DataChecker& c) const {
  for (std::size_t split = 0; split < rows_.size(); ++split)
    c.figure("rows in " + std::string(k_split_names[split]), static_cast<double>(rows_[split].size()));
}

}  // namespace unroll
