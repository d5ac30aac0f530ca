// SPDX-License-Identifier: Apache-2.0
// Columns of a table as parallel series: numbers in memory, or a few rows at a time from the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/batch/records.h"
#include "core/data/series/covariates_read.h"
#include "core/data/series/runs.h"
#include "core/data/series/series_dates.h"
#include "core/data/series/sorted_rows.h"
#include "core/data/table/csv.h"

namespace unroll {

// Rows [begin, end) of S series and C covariates.
struct SeriesPiece {
  std::int64_t begin = 0, end = 0;
  std::int64_t first = 0;  // levels of earlier rows are those of this one, as in a stream
  std::size_t n_series = 0, n_covariates = 0;
  std::vector<double> levels;          // [end - begin, S], gaps filled
  std::vector<std::uint8_t> observed;  // like `levels`; 0 at a gap
  std::vector<double> covariates;      // [end - begin, C], gaps filled with the last value; NaN before it

  double level(std::int64_t t, std::size_t s) const { return levels[at(std::max(t, first), s)]; }
  std::span<const double> covariates_at(std::int64_t t) const {
    return std::span(covariates).subspan((std::max(t, first) - begin) * n_covariates, n_covariates);
  }
  bool is_observed(std::int64_t t, std::size_t s) const { return observed[at(t, s)] != 0; }
  // Adds a row [S + C]: `last` has the last value of each column, `values` NaN at gaps.
  void add(std::span<const double> values, std::span<const double> last);
  // Fills gaps before `until` by linear interpolation. Uses no values from `until` on.
  void interpolate(std::int64_t until);

 private:
  std::size_t at(std::int64_t t, std::size_t s) const { return (t - begin) * n_series + s; }
};

// Rows [begin, end) of one of several tables in a file: all series of one id. Other files are one table without an id.
struct SeriesSegment {
  std::string id;
  std::int64_t begin = 0, end = 0;
  std::int64_t first = 0;    // number of the date of row `begin`
  std::int64_t n_ahead = 0;  // rows from `end` on with covariates, but no values of the series: they are to be forecast
  std::int64_t size() const { return end - begin; }
};

struct SeriesFormat {
  std::vector<std::string> columns;  // of the series; "": the last column
  DateColumn date;
  CsvFormat csv;
  bool gaps_refused = false;
  bool is_trained = false;               // true: a model was trained on these columns
  std::optional<KnownTable> known = {};  // the table with `columns` and `date`
  std::string step = {};                 // of the dates, as in step_text; "": any
  std::string id = "none";               // as in ForecastOptions::id
  std::vector<CovariateColumn> covariates = {};
};
// Determines the columns of the series from the first row. Throws Error(usage) if a column does not exist, or if the
// default last column looks like dates.
std::vector<std::size_t> series_columns(const CsvReader& reader, const SeriesFormat& format,
                                        std::span<const std::string> cells);

// Missing values, and all values of missing dates, are gaps. A gap reads as the previous value, so no information comes
// from the future. Rows before the first value of each series are dropped. With an id column, the rows of each id are a
// table of their own, and the tables follow each other. With covariates, the last rows of a table that have no value
// are not a part of it: they are to be forecast. Throws Error(input_file) on invalid numbers, irregular dates,
// dates with another step than the format's, refused gaps, and a series without values. Throws Error(usage) if a column
// does not exist.
class SeriesRows {
 public:
  // hold: keep all numbers. Otherwise keep every 256th line's position and the last value of each series before it.
  SeriesRows(RecordFile file, const SeriesFormat& format, bool hold);

  std::int64_t size() const { return n_; }
  std::size_t n_series() const { return format_.columns.size(); }
  const std::vector<CovariateColumn>& covariates() const { return covariates_.columns(); }
  const std::vector<SeriesSegment>& segments() const { return segments_; }  // ascending, of all rows
  const SeriesSegment& segment_of(std::int64_t row) const { return segments_[segment_at(row)]; }
  std::size_t segment_at(std::int64_t row) const;
  // The column of the ids, or "none".
  std::string id_column() const { return id_column_ ? reader_.column_name(*id_column_) : "none"; }
  const Runs& observed() const { return observed_; }  // rows in which at least one series has a value
  const CsvReader& reader() const { return reader_; }
  std::string column_name(std::size_t series) const { return reader_.column_name(columns_[series]); }
  // The column of a series, its id, or both: "store 7, sales".
  std::string series_name(const SeriesSegment& segment, std::size_t series) const;
  const SeriesDates& dates() const { return *dates_; }
  // The date column for reading another file with the same dates.
  DateColumn date_column() const {
    if (!dates_->exist()) return {"none"};
    return {reader_.column_name(dates_->column()), dates_->format().name(), calendar_code(dates_->step()),
            dates_->zone(), dates_->steps()};
  }
  // The format for reading another file with the same columns and dates.
  SeriesFormat format_of_others() const;
  // Returns the date of a row of the segment, or its number from 0. Rows may lie behind its end.
  std::string place(const SeriesSegment& segment, std::int64_t row) const {
    return dates_->exist() ? dates_->text(row - segment.begin + segment.first) : std::to_string(row - segment.begin);
  }
  std::vector<std::string> notes() const;     // as Task::notes()
  std::vector<std::string> warnings() const;  // as Task::warnings()
  // Reads existing rows, from any thread.
  void read(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;
  // Reads rows of the segment that has row end - 1; it may begin later than `begin`.
  void read_window(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;

 private:
  void find_dates(SortedRows& rows);
  void find_columns(std::span<const std::string> cells);
  void find_id();
  void read_rows(const SortedRows& rows);
  void read_values(const Line& line, std::span<const std::string> cells, std::span<double> values) const;
  std::string unread_columns() const;
  void end_segment(SeriesSegment segment, bool begun, std::int64_t known_end, std::int64_t n_unknown);
  void add_row(std::span<const double> values, std::vector<double>& last);
  void add_gap(std::int64_t from, std::int64_t to, std::size_t line, bool refused);
  void read_again(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const;

  RecordFile file_;  // a record is a block of rows
  SeriesFormat format_;
  CsvReader reader_;
  std::vector<std::size_t> columns_;  // of the series, then of the covariates
  CovariatesRead covariates_;
  std::optional<std::size_t> id_column_;
  bool is_grouped_ = false;   // true: the rows of an id are not together in the file
  bool is_reversed_ = false;  // true: the newest rows come first in the file
  bool finds_id_ = false;     // true: no id column is named, and there is one with a usual name
  bool takes_last_ = false;  // true: no column is named, so the series is the last one
  std::optional<SeriesDates> dates_;
  std::int64_t n_ = 0, n_lines_ = 0, n_missing_ = 0;
  std::vector<SeriesSegment> segments_;
  std::int64_t n_empty_ = 0;  // ids without values
  std::int64_t n_gaps_ = 0;   // runs of missing dates
  std::string first_gaps_, gap_advice_;
  Runs observed_;
  bool hold_;
  SeriesPiece held_;
  std::vector<std::int64_t> block_rows_;  // [blocks] first row of each block
  std::vector<double> before_;            // [blocks, S + C] levels
};

// Reads rows in order, thousands at a time.
class SeriesCursor {
 public:
  explicit SeriesCursor(const SeriesRows& rows) : rows_(rows) {}
  // Returns at least rows [begin, end) as read_window does, valid until the next call.
  const SeriesPiece& at(std::int64_t begin, std::int64_t end);

 private:
  const SeriesRows& rows_;
  SeriesPiece piece_;
};

}  // namespace unroll
