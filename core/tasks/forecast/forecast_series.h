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
#include "core/tasks/common/example_parts.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/form/forecast_form.h"
#include "unroll/tasks/backtest.h"

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

// Windows of rows, by their first target row.
struct SeriesWindows {
  const SeriesRows& rows;
  const Runs& at;
  std::span<const double> seasonal;  // [segments, S], as seasonal_errors
};

// The part of a task that its baselines read.
struct BaselineData {
  const SeriesRows& train;
  const Runs& trained;  // the first target row of each window that linear_ar is fitted to
  const Differencing& differencing;
  const ForecastOptions& options;
};

class SeriesBaselines {
 public:
  explicit SeriesBaselines(const BaselineData& data, bool regresses = true);
  std::span<const std::string_view> names() const;  // linear_ar only if fitted, and without an id column
  std::int64_t horizon() const { return horizon_; }
  std::int64_t history(std::string_view name) const;  // rows that one reads
  // Predicts `steps` values of a series after `past`, its last values, the oldest first. Earlier values are equal to
  // the first of them.
  std::vector<double> path(std::string_view name, std::span<const double> past, std::size_t series,
                           std::int64_t steps) const;

 private:
  Differencing differencing_;
  std::int64_t window_, horizon_, period_;
  std::vector<Autoregression> regressions_;  // by series
};

// Adds the last forecasts of some series, with those of two baselines.
void forecast_examples(const ExampleRequest& request, Examples& examples);

// By baseline.
using MethodErrors = std::map<std::string_view, ForecastErrors>;
// Returns the baseline errors by series, over all targets of the windows in `scored`.
std::vector<MethodErrors> method_errors(const BaselineData& data, const SeriesWindows& scored);

}  // namespace unroll
