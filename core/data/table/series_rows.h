// SPDX-License-Identifier: Apache-2.0
// Columns of a table as parallel series: numbers in memory, or a few rows at a time from the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/table/csv.h"
#include "core/data/table/series_dates.h"

namespace unroll {

// Ascending numbers as runs of a, a + step, a + 2 step, ...
class Runs {
 public:
  explicit Runs(std::int64_t step = 1) : step_(step) {}
  void add(std::int64_t number);  // exceeds all others
  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t operator[](std::int64_t index) const;
  std::int64_t last() const { return (*this)[size_ - 1]; }
  template <class F>
  void for_each(const F& see) const {
    for (std::size_t r = 0; r < runs_.size(); ++r)
      for (std::int64_t i = runs_[r].before, n = runs_[r].first; i < end_of(r); ++i, n += step_) see(n);
  }

 private:
  struct Run {
    std::int64_t first, before;  // its first number, and the count of all earlier numbers
  };
  std::int64_t end_of(std::size_t run) const { return run + 1 < runs_.size() ? runs_[run + 1].before : size_; }

  std::int64_t step_, size_ = 0;
  std::vector<Run> runs_;
};

// Rows [begin, end) of S series.
struct SeriesPiece {
  std::int64_t begin = 0, end = 0;
  std::size_t n_series = 0;
  std::vector<double> levels;          // [end - begin, S], gaps filled
  std::vector<std::uint8_t> observed;  // like `levels`; 0 at a gap

  double level(std::int64_t t, std::size_t s) const { return levels[at(t, s)]; }
  bool is_observed(std::int64_t t, std::size_t s) const { return observed[at(t, s)] != 0; }
  // Adds a row: `last` has the last value of each series, `values` NaN at gaps.
  void add(std::span<const double> values, std::span<const double> last);
  // Fills gaps before `until` by linear interpolation. Uses no values from `until` on.
  void interpolate(std::int64_t until);

 private:
  std::size_t at(std::int64_t t, std::size_t s) const { return (t - begin) * n_series + s; }
};

struct SeriesFormat {
  std::vector<std::string> columns;  // of the series; "": the last column
  DateColumn date;
  CsvFormat csv;
  bool gaps_refused = false;
  bool is_trained = false;               // true: a model was trained on these columns
  std::optional<KnownTable> known = {};  // the table with `columns` and `date`
  std::string step = {};                 // of the dates, as in step_text; "": any
};
// Determines the columns of the series from the first row. Throws Error(usage) if a column does not exist, or if the
// default last column looks like dates.
std::vector<std::size_t> series_columns(const CsvReader& reader, const SeriesFormat& format,
                                        std::span<const std::string> cells);

// Missing values, and all values of missing dates, are gaps. A gap reads as the previous value, so no information comes
// from the future. Rows before the first value of each series are dropped. Throws Error(input_file) on invalid numbers,
// irregular dates, dates with another step than the format's, refused gaps, and a series without values. Throws
// Error(usage) if a column does not exist.
class SeriesRows {
 public:
  // hold: keep all numbers. Otherwise keep every 256th line's position and the last value of each series before it.
  SeriesRows(RecordFile file, const SeriesFormat& format, bool hold);

  std::int64_t size() const { return n_; }
  std::size_t n_series() const { return columns_.size(); }
  const Runs& observed() const { return observed_; }  // rows in which at least one series has a value
  const CsvReader& reader() const { return reader_; }
  std::string column_name(std::size_t series) const { return reader_.column_name(columns_[series]); }
  const SeriesDates& dates() const { return *dates_; }
  // The date column for reading another file with the same dates.
  DateColumn date_column() const {
    return dates_->exist() ? DateColumn{reader_.column_name(dates_->column()), dates_->format().name()}
                           : DateColumn{"none", ""};
  }
  // The format for reading another file with the same columns and dates.
  SeriesFormat format_of_others() const;
  // Returns the date of a row, or its number from 0.
  std::string place(std::int64_t row) const {
    return dates_->exist() ? dates_->text(row + dropped_) : std::to_string(row);
  }
  std::vector<std::string> notes() const;     // as Task::notes()
  std::vector<std::string> warnings() const;  // as Task::warnings()
  // Reads existing rows, from any thread.
  void read(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;

 private:
  void find_dates();
  void find_columns(std::span<const std::string> cells);
  void read_rows();
  void add_row(std::span<const double> values, std::vector<double>& last);
  void add_gap(std::int64_t from, std::int64_t to, std::size_t line, bool refused);
  void read_again(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;

  RecordFile file_;  // a record is a block of rows
  SeriesFormat format_;
  CsvReader reader_;
  std::vector<std::size_t> columns_;
  bool takes_last_ = false;  // true: no column is named, so the series is the last one
  std::optional<SeriesDates> dates_;
  std::int64_t n_ = 0, n_lines_ = 0, n_missing_ = 0;
  std::int64_t dropped_ = 0;  // rows before the first one
  std::int64_t n_gaps_ = 0;   // runs of missing dates
  std::string first_gaps_;
  Runs observed_;
  bool hold_;
  SeriesPiece held_;
  std::vector<std::int64_t> block_rows_;  // [blocks] first row of each block
  std::vector<double> before_;            // [blocks, S] levels
};

// Reads rows in order, thousands at a time.
class SeriesCursor {
 public:
  explicit SeriesCursor(const SeriesRows& rows) : rows_(rows) {}
  // Returns at least rows [begin, end), valid until the next call.
  const SeriesPiece& at(std::int64_t begin, std::int64_t end);

 private:
  const SeriesRows& rows_;
  SeriesPiece piece_;
};

// Positions t of targets [t, t + horizon) within [begin, end), predicted from the `window` values before t. At least
// one target is observed in one of the series, t - window >= first, and positions are `stride` apart.
struct TargetOptions {
  std::int64_t window = 1, horizon = 1, first = 0, stride = 1;
};
Runs targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& options);

}  // namespace unroll
