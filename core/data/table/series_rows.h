// SPDX-License-Identifier: Apache-2.0
// Columns of a table as series side by side: held as numbers, or read again from their file a few rows at a time.
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

// Rising numbers as runs of a, a + step, a + 2 step, ...
class Runs {
 public:
  explicit Runs(std::int64_t step = 1) : step_(step) {}
  void add(std::int64_t number);  // above all others
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
    std::int64_t first, before;  // its first number, and how many numbers come before it
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
  std::vector<std::uint8_t> observed;  // the same; 0 where there was a gap

  double level(std::int64_t t, std::size_t s) const { return levels[at(t, s)]; }
  bool is_observed(std::int64_t t, std::size_t s) const { return observed[at(t, s)] != 0; }
  // Puts gaps before `until` on a line between the values on both sides, of which none is from `until` on.
  void interpolate(std::int64_t until);

 private:
  std::size_t at(std::int64_t t, std::size_t s) const { return static_cast<std::size_t>(t - begin) * n_series + s; }
};

struct SeriesFormat {
  std::vector<std::string> columns;  // of the series; "": the last one
  DateColumn date;
  CsvFormat csv;
  bool gaps_refused = false;
  bool is_trained = false;               // a model was trained on these columns
  std::optional<KnownTable> known = {};  // `columns` and `date` are columns of this table
  std::string step = {};                 // of its dates, as step_text writes it; "": any
};
// The columns of the series, from the first row. Throws Error(usage) when there is no such column, and when the last
// one is to be taken and looks like dates.
std::vector<std::size_t> series_columns(const CsvReader& reader, const SeriesFormat& format,
                                        std::span<const std::string> cells);

// A missing value is a gap, and so is every value of a missing date. It is read as the last value before it, so that
// nothing comes from the future; rows before each series has had a value are dropped. Throws Error(input_file) on what
// is no table of finite numbers, on irregular dates, on dates with another step than that of the format, on gaps when
// they are refused, and when a series has no value at all; Error(usage) when there is no such column.
class SeriesRows {
 public:
  // hold: the numbers of all rows; else of every 256th line where it begins, and what each series was before it.
  SeriesRows(RecordFile file, const SeriesFormat& format, bool hold);

  std::int64_t size() const { return n_; }
  std::size_t n_series() const { return columns_.size(); }
  const Runs& observed() const { return observed_; }  // rows in which some series has a value
  const CsvReader& reader() const { return reader_; }
  std::string column_name(std::size_t series) const { return reader_.column_name(columns_[series]); }
  const SeriesDates& dates() const { return *dates_; }
  // How another file is read with the same dates.
  DateColumn date_column() const {
    return dates_->exist() ? DateColumn{reader_.column_name(dates_->column()), dates_->format().name()}
                           : DateColumn{"none", ""};
  }
  // How another file is read with the same columns and dates.
  SeriesFormat format_of_others() const;
  // The date of a row, or its number from 0.
  std::string place(std::int64_t row) const {
    return dates_->exist() ? dates_->text(row + dropped_) : std::to_string(row);
  }
  std::vector<std::string> notes() const;     // as Task::notes()
  std::vector<std::string> warnings() const;  // as Task::warnings()
  // Rows that exist; from any thread.
  void read(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;

 private:
  void find_dates();
  void find_columns(std::span<const std::string> cells);
  void read_rows();
  void add_gap(std::int64_t from, std::int64_t to, std::size_t line, bool refused);
  void read_again(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;

  RecordFile file_;  // a record is a block of rows
  SeriesFormat format_;
  CsvReader reader_;
  std::vector<std::size_t> columns_;
  bool takes_last_ = false;  // the series is the last column, since none is named
  std::optional<SeriesDates> dates_;
  std::int64_t n_ = 0, n_lines_ = 0, n_missing_ = 0;
  std::int64_t dropped_ = 0;  // rows before the first one
  std::int64_t n_gaps_ = 0;   // runs of missing dates
  std::string first_gaps_;
  Runs observed_;
  bool hold_;
  SeriesPiece held_;
  std::vector<std::int64_t> block_rows_;  // [blocks] the first row of each
  std::vector<double> before_;            // [blocks, S] levels
};

// Rows one after the other, read some thousands at a time.
class SeriesCursor {
 public:
  explicit SeriesCursor(const SeriesRows& rows) : rows_(rows) {}
  // Holds rows [begin, end) at least, until the next call.
  const SeriesPiece& at(std::int64_t begin, std::int64_t end);

 private:
  const SeriesRows& rows_;
  SeriesPiece piece_;
};

// Positions t to predict [t, t + horizon) at, within [begin, end), from the `window` values before t: at least one of
// them observed in one of the series, t - window >= first, and `stride` behind the position before.
struct TargetOptions {
  std::int64_t window = 1, horizon = 1, first = 0, stride = 1;
};
Runs targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& options);

}  // namespace unroll
