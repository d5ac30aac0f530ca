// SPDX-License-Identifier: Apache-2.0
// The series of a forecast: what is learnt of each, in units of its own, and what simple methods make of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/table/series_rows.h"
#include "core/data/table/windows.h"
#include "core/tasks/common/task_parts.h"

namespace unroll {

// The names of the columns: at least one, each once; of one alone perhaps "". Throws Error(usage).
std::vector<std::string> columns_of(const ForecastOptions& options);

SeriesFormat series_format(const ForecastOptions& options);
// That of a model's training file.
SeriesFormat series_format(const Metadata& metadata);

// By split: the series of the data file, or of the file that the split has for itself, which is read like the data
// file.
using SeriesOfSplits = std::array<std::shared_ptr<const SeriesRows>, 3>;
SeriesOfSplits read_series(const ForecastOptions& options, const DataSource& data, const std::string& name,
                           const Metadata& fitted = {});
// The notes or warnings of all files.
std::vector<std::string> lines_of(const SeriesOfSplits& rows, std::vector<std::string> (SeriesRows::*lines)() const);
// As Task::warnings(): those of all files, and of a season that the step of the dates does not have.
std::vector<std::string> warnings_of(const SeriesOfSplits& rows, const ForecastOptions& options);

// What is read of series s at t: its level, or the change to it.
inline double value_at(const SeriesPiece& piece, std::int64_t t, std::size_t s, bool difference) {
  return piece.level(t, s) - (difference ? piece.level(t - 1, s) : 0);
}
// What is learnt of the value h steps behind t, seen from t.
inline double target_of(const SeriesPiece& piece, std::int64_t t, std::int64_t h, std::size_t s, bool difference) {
  return piece.level(t + h, s) - (difference ? piece.level(t - 1, s) : 0);
}

// By series and distance; those at distance 0 are also of what is read. Of training alone: nothing is looked at from
// `train_end` on, and `windows` are the positions that are learnt from.
std::vector<std::vector<ZScore>> fit_scales(const SeriesRows& rows, const Runs& windows, std::int64_t train_end,
                                            const ForecastOptions& options);
// By series: the error of seasonal_naive one value ahead, over what training may see, which mase counts in; 0 when
// there is none.
std::vector<double> seasonal_errors(const SeriesRows& rows, std::int64_t train_end, std::int64_t period);

// Sums over values that were observed; those of several series add up.
struct ForecastErrors {
  double absolute = 0, square = 0, n = 0;
  double scaled = 0, n_scaled = 0;  // in units of each series' seasonal error, where there is one

  ForecastErrors& operator+=(const ForecastErrors& other);
  // mae, rmse and, where there is one, mase, each with `suffix` behind its name; nothing when n is 0
  void put(std::map<std::string, double>& metrics, const std::string& suffix) const;
};

// By method: persistence, seasonal_naive, linear_ar.
using MethodErrors = std::map<std::string_view, ForecastErrors>;
// Windows of some rows, by where what they predict begins.
struct SeriesWindows {
  const SeriesRows& rows;
  const Runs& at;
};
// By series, over all values ahead of the windows of `scored`; linear_ar is fitted to those of `train`.
std::vector<MethodErrors> method_errors(const SeriesWindows& train, const SeriesWindows& scored,
                                        std::span<const double> seasonal, const ForecastOptions& options);

}  // namespace unroll
