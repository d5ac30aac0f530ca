// SPDX-License-Identifier: Apache-2.0
// Tables for predictions, read as the training file was: columns by name, missing values filled, dates continued.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/hidden_state.h"
#include "unroll/support/vfs.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// Rows of a CSV or TSV file for a task on rows of a table. Columns are found by their names. A file without a header
// has only the features, in the model's order; or what the training file had, if that one had no header either.
class UNROLL_API FeatureReader {
 public:
  // `name` is the file's name in messages. Throws Error(usage) when the model is of another task.
  FeatureReader(const Metadata& metadata, std::string name);
  // Before read(): what the settings leave open, such as whether there is a header, follows from the rows that the file
  // begins with, as in training. Otherwise it follows from the first line.
  void look_at(std::shared_ptr<const Vfs::Reader> file);
  // As Task::warnings().
  std::vector<std::string> warnings() const;

  struct Row {
    std::vector<double> values;  // NaN where one is missing
    // As the file has them, by target; "" where one is missing. Empty where the file lacks a target column.
    std::vector<std::string> targets;
  };
  // The row of the next line; nothing for the header and for a blank line. Throws Error(input_file) with the line and
  // the column on what is no row of numbers, and Error(usage) when a column is not there.
  std::optional<Row> read(std::string_view line, std::int64_t number);

 private:
  struct State;
  HiddenState<State> state_;
};

// The end of the series in a file, for a forecast.
struct SeriesEnd {
  std::vector<std::string> columns;  // names of the series
  std::vector<double> values;        // [rows, S], missing values filled
  std::string date;                  // the date column; "" where there is none
  std::vector<std::string> next;     // the dates of the steps that follow, or 1, 2, ...
  std::vector<std::string> at;       // of the rows and of `next`: the date, or the row's number from 0
  std::vector<std::string> notes;    // what was found in the file
};
// The last `rows` rows of the file and the dates of `steps` that follow. Columns are found as by FeatureReader. Throws
// Error(input_file) on what is no table of numbers, when it has fewer rows, and when the dates have another step than
// those the model was trained on; Error(usage) when a column is not there.
UNROLL_API SeriesEnd series_end(const Metadata& metadata, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name, std::int64_t rows, std::int64_t steps);

// A file as it is, or what it unpacks to when it is packed with gzip.
UNROLL_API std::shared_ptr<const Vfs::Reader> open_table(const std::string& path);

}  // namespace unroll
