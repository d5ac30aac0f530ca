// SPDX-License-Identifier: Apache-2.0
// The series of a forecast: inputs and targets of the model, their scales, and baselines.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/series/series_rows.h"
#include "core/data/series/windows.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/form/forecast_form.h"

namespace unroll {

// Returns the column names: at least one, without repetition; possibly "" for a single column. Throws Error(usage).
std::vector<std::string> columns_of(const ForecastOptions& options);

SeriesFormat series_format(const ForecastOptions& options);
// Returns the format of a model's training file.
SeriesFormat series_format(const Metadata& metadata);

// The series by split, from the data file or the separate file of the split, which is read in the same way.
using SeriesOfSplits = PerSplit<std::shared_ptr<const SeriesRows>>;
SeriesOfSplits read_series(const ForecastOptions& options, const DataSource& data, const std::string& name,
                           const Metadata& fitted = {});
// Returns the notes or warnings of all files.
std::vector<std::string> lines_of(const SeriesOfSplits& rows, std::vector<std::string> (SeriesRows::*lines)() const);

// Returns the difference of series s at t, the model's input.
inline double value_at(const SeriesPiece& piece, std::int64_t t, std::size_t s, const Differencing& differencing) {
  return differencing.at([&](std::int64_t back) { return piece.level(t - back, s); });
}
// Writes the levels of series s at t, t + 1, ... if all differences from t on are zero. Targets are levels less these.
inline void continue_at(const SeriesPiece& piece, std::int64_t t, std::size_t s, const Differencing& differencing,
                        std::span<double> levels) {
  std::fill(levels.begin(), levels.end(), 0.0);
  differencing.integrate([&](std::int64_t back) { return piece.level(t - back, s); }, levels);
}

// The rows of a segment by use: [begin, validation) train, [validation, test) validate, [test, end) test.
struct SegmentSplit {
  std::int64_t begin, validation, test, end;
};
// Splits the training file by the shares of the options. With ids, a share takes at least the horizon of each segment,
// and a segment of which less than half would be left for training has no test or validation rows.
std::vector<SegmentSplit> split_segments(const SeriesRows& rows, const ForecastOptions& options);

// Fits scales by series and distance. Distance 0 also scales the inputs. Uses only training data: the rows of each
// segment before `validation`, and the training positions `windows`.
std::vector<std::vector<ZScore>> fit_scales(const SeriesRows& rows, const Runs& windows,
                                            std::span<const SegmentSplit> splits, const Differencing& differencing,
                                            std::int64_t horizon);
// The same for a model of many segments: one scale for all distances, because each window has its own.
std::vector<std::vector<ZScore>> fit_common_scales(const SeriesRows& rows, std::span<const SegmentSplit> splits,
                                                   const Differencing& differencing, std::int64_t horizon);
// Returns [segments, S]: the training error of the one-step seasonal_naive forecast, the unit of mase; 0 if there is
// none.
std::vector<double> seasonal_errors(const SeriesRows& rows, std::span<const SegmentSplit> splits, std::int64_t period);

// Error sums over observed values; add them for several series.
struct ForecastErrors {
  double absolute = 0, square = 0, n = 0;
  double scaled = 0, n_scaled = 0;  // in units of each series' seasonal error, if any

  void add(double error, double seasonal);  // a seasonal error of 0: there is none
  ForecastErrors& operator+=(const ForecastErrors& other);
  // Adds mae, rmse and, if defined, mase, with `suffix` after each name; adds nothing if n is 0.
  void put(std::map<std::string, double>& metrics, const std::string& suffix) const;
};

// By baseline: persistence, seasonal_naive, and for a single segment linear_ar.
using MethodErrors = std::map<std::string_view, ForecastErrors>;
// Windows of rows, by their first target row.
struct SeriesWindows {
  const SeriesRows& rows;
  const Runs& at;
  std::span<const double> seasonal;  // [segments, S], as seasonal_errors
};
// Returns the baseline errors by series, over all targets of the windows in `scored`; linear_ar is fitted to the
// windows `trained`.
std::vector<MethodErrors> method_errors(const SeriesRows& train, const Runs& trained, const SeriesWindows& scored,
                                        const Differencing& differencing, const ForecastOptions& options);

}  // namespace unroll
