// SPDX-License-Identifier: Apache-2.0
// Tables for predictions, read like the training file: columns by name, missing values filled, dates continued.
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

// Reads rows of a CSV or TSV file for a task on tables. Columns are found by name. A file without a header has only the
// features, in the model's order, or the same columns as a training file without a header.
class UNROLL_API FeatureReader {
 public:
  // `name` is the file's name in messages. Throws Error(usage) when the model is of another task.
  FeatureReader(const Metadata& metadata, std::string name);
  // Call before read(): determines open settings, such as the presence of a header, from the first rows of the file, as
  // in training. Otherwise the first line determines them.
  void look_at(std::shared_ptr<const Vfs::Reader> file);
  // Returns warnings like Task::warnings().
  std::vector<std::string> warnings() const;

  struct Row {
    std::vector<double> values;  // NaN where missing
    // Cells of the target columns; "" where missing. Empty if the file lacks a target column.
    std::vector<std::string> targets;
  };
  // Returns the row of the next line; nothing for the header and for a blank line. Throws Error(input_file) with line
  // and column on cells that are not numbers, and Error(usage) on a missing column.
  std::optional<Row> read(std::string_view line, std::int64_t number);

 private:
  struct State;
  HiddenState<State> state_;
};

// The end of the series in a file, the input of a forecast.
struct SeriesEnd {
  std::vector<std::string> columns;  // names of the series
  std::vector<double> values;        // [rows, S], missing values filled
  std::string date;                  // the date column; "" if there is none
  std::vector<std::string> next;     // the dates of the following steps, or 1, 2, ...
  std::vector<std::string> at;       // of the rows and of `next`: the date, or the row number from 0
  std::vector<std::string> notes;    // findings about the file
};
// Reads the last `rows` rows of the file and continues the dates by `steps`. Columns are found as by FeatureReader.
// Throws Error(input_file) when the file is not a table of numbers, has fewer rows, or has another date step than the
// training file. Throws Error(usage) on a missing column.
UNROLL_API SeriesEnd series_end(const Metadata& metadata, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name, std::int64_t rows, std::int64_t steps);

// Opens a file; unpacks it if it is compressed with gzip.
UNROLL_API std::shared_ptr<const Vfs::Reader> open_table(const std::string& path);

}  // namespace unroll
