// SPDX-License-Identifier: Apache-2.0
// The covariates of a forecast: columns of the table and terms of the calendar, and the features that a network reads
// of them. Shapes: N rows, B lanes, C columns, F features, of which the first K are known ahead.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/data/series/series_rows.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/form/calendar_terms.h"
#include "core/tasks/forecast/form/differencing.h"

namespace unroll {

std::string covariate_key(std::size_t k, const char* what);  // in metadata
// The columns of the table that are covariates: those known ahead first.
std::vector<CovariateColumn> covariate_columns(const ForecastOptions& options);
std::vector<CovariateColumn> covariate_columns(const Metadata& metadata);

// Throws Error(usage) if the options list other covariates than the model reads. An empty list is that of the model.
void require_covariates_as_trained(const Metadata& fitted, const std::string& file, const ForecastOptions& options);

// A feature of a row is a standardized number, 1 for a category and 0 for the others, or a sine or cosine.
struct CovariateValues {
  Value window;                  // [W,B,F]
  Value ahead;                   // [B,H,K]
  Value changes, changes_ahead;  // [W,B,K], [B,H,K]: the same of the first K, differenced like the series
};

class Covariates {
 public:
  Covariates() = default;  // none
  // Fits scales to the rows `trained`. Throws Error(usage) on unknown terms of the calendar, on
  // those of a table without dates, and on a static covariate that changes within a series.
  Covariates(const ForecastOptions& options, const SeriesRows& rows, std::span<const RowRange> trained);
  explicit Covariates(const Metadata& metadata);
  void put(Metadata& metadata) const;

  bool empty() const { return columns_.empty(); }
  std::int64_t width() const { return std::ssize(columns_); }  // C
  std::int64_t n_ahead() const;                                // K
  std::int64_t n_features() const;                             // F
  std::vector<std::string> names() const;                      // [C]
  bool has_past() const;                                       // a column is unknown ahead
  std::vector<std::string> given_ahead() const;  // columns whose values must be given for the rows to forecast
  // Appends the columns [end - begin, C] of rows of a segment. Rows behind those of the piece have no values of columns
  // of the table, but for static covariates.
  void append(const SeriesRows& rows, const SeriesSegment& segment, const SeriesPiece& piece, std::int64_t begin,
              std::int64_t end, std::vector<double>& to) const;
  void standardize(std::span<const double> row, float* to) const;
  Value standardize(Value columns) const;  // [N,B,C]
  // Writes the first K features of a row [C].
  void features(std::span<const double> row, std::span<double> to) const;
  // columns: standardized [D+W+H,B,C], where differences read D rows back
  CovariateValues values(Value columns, const Differencing& differencing, std::int64_t horizon) const;

 private:
  struct Column {
    std::string name;
    bool is_ahead = true, is_static = false;
    std::vector<std::string> categories = {};  // of a column of the table
    std::int64_t classes = 0;                  // 0: a number
    ZScore scale = {};
    std::int64_t width() const { return std::max<std::int64_t>(classes, 1); }  // features
  };
  void add_calendar(std::span<const std::string> terms);
  void add_columns(std::span<const CovariateColumn> of_table, std::span<const std::string> fixed);
  void fit(const SeriesRows& rows, std::span<const RowRange> trained);
  Value features(Value columns, bool ahead) const;

  std::vector<Column> columns_;  // those of the table, then those of the calendar
  std::size_t n_of_table_ = 0;
  std::vector<std::string> terms_;
  std::vector<CalendarTerm> calendar_;
};

// The standardized columns of a batch: [N,B,C].
class CovariateBatch {
 public:
  CovariateBatch(const Covariates& covariates, std::int64_t n_rows, std::int64_t n_lanes);
  // Sets a lane to the rows from `begin` on of the segment of the piece.
  void add(const SeriesRows& rows, const SeriesPiece& piece, std::int64_t begin, std::int64_t lane);
  // Sets a lane to rows [N, C].
  void add(std::span<const double> rows, std::int64_t lane);
  Tensor take() { return std::move(values_); }

 private:
  const Covariates& covariates_;
  Tensor values_;
  std::vector<double> rows_;
};

// Returns the columns [end - begin, C] of the rows around t, of the segment that has row t - 1. It may begin later.
std::vector<double> covariates_around(const Covariates& covariates, const SeriesRows& rows, std::int64_t begin,
                                      std::int64_t t, std::int64_t end);

}  // namespace unroll
