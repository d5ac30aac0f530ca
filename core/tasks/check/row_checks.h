// SPDX-License-Identifier: Apache-2.0
// Checks shared by the kinds of data: rows with lengths in three splits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/batch/per_split.h"
#include "core/data/batch/records.h"
#include "unroll/data/data_check.h"
#include "unroll/train/trainer.h"

namespace unroll {

struct CheckedRow {
  std::uint64_t content = 0;  // content_of(): equal rows are duplicates
  std::int64_t length = 0;  // in tokens
  std::size_t line = 0;     // from 1
  Split split = Split::train;
};

// A 64-bit hash. A billion rows have a false duplicate with probability 1/37.
std::uint64_t content_of(std::string_view text);

using LabelCounts = std::map<std::string, PerSplit<std::int64_t>>;

class DataChecker {
 public:
  void figure(const std::string& name, double value) { check_.figures.emplace_back(name, value); }
  void error(std::string check, std::string what) {
    check_.findings.push_back({true, std::move(check), std::move(what)});
  }
  void warn(std::string check, std::string what) {
    check_.findings.push_back({false, std::move(check), std::move(what)});
  }

  // Reports empty and blank lines, the first ones by number. `usual`: minimum significant number in a row. `csv`:
  // ignore lines inside quoted cells.
  void empty_lines(const RecordFile& file, std::size_t usual, bool csv = false);
  // Reports the training lengths and the longest row of all. Rows far beyond the median make batches mostly padding.
  void lengths(const std::vector<CheckedRow>& rows, const std::string& unit);
  // Reports validation and test rows that also occur in training.
  void duplicates(const std::vector<CheckedRow>& rows);
  struct Known {
    std::int64_t known = 0, unknown = 0;
  };
  using BySplit = PerSplit<Known>;
  // Reports tokens by split, and the vocabulary size.
  void vocabulary(const BySplit& tokens, std::int64_t size, const std::string& prefix = {});
  // Reports counts by label and split.
  void labels(const LabelCounts& counts);
  // Reports the warnings of Task::warnings().
  void format(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) warn("format", warning);
  }
  DataCheck take() { return std::move(check_); }

 private:
  DataCheck check_;
};

// Formats a share as "12.5 %".
std::string percent(double share);

}  // namespace unroll
