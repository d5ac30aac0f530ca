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

// The end of the series of one id, or of all series of a file without an id column: the input of a forecast.
struct SeriesEnd {
  std::string id;
  std::vector<double> values;     // [rows, S], missing values filled
  std::vector<double> covariates;  // [rows + steps, C], as Forecaster::predict takes them
  std::vector<std::string> next;  // the dates of the following steps, or 1, 2, ...
  std::vector<std::string> at;    // of the rows and of `next`: the date, or the row number from 0
};

// The ends of all series of a file. Columns are found as by FeatureReader.
class UNROLL_API SeriesEnds {
 public:
  // Reads the last `rows` rows of each id, or fewer if there are fewer, and continues the dates by `steps`. Throws
  // Error(input_file) when the file is not a table of numbers, has fewer rows than a model or a season and no id
  // column, or has another date step than the training file. Throws Error(usage) on a missing column, and if the rows
  // to forecast have no future covariates.
  SeriesEnds(const Metadata& metadata, std::shared_ptr<const Vfs::Reader> file, const std::string& name,
             std::int64_t rows, std::int64_t steps);

  const std::vector<std::string>& columns() const;  // S names of the series
  const std::string& date() const;                  // the date column; "" if there is none
  const std::string& id() const;                    // the id column; "" if there is none
  const std::vector<std::string>& notes() const;    // findings about the file
  std::size_t size() const;                         // number of ids, at least 1
  SeriesEnd at(std::size_t index) const;            // in the order of the file

 private:
  struct State;
  HiddenState<State> state_;
};

// Opens a file; unpacks it if it is compressed with gzip.
UNROLL_API std::shared_ptr<const Vfs::Reader> open_table(const std::string& path);

}  // namespace unroll
