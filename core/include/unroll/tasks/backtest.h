// SPDX-License-Identifier: Apache-2.0
// Forecasts of known values: those of every window of a split, and prediction intervals from their errors.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/export.h"
#include "unroll/train/task.h"

namespace unroll {

class Forecaster;

// One value of a forecast.
struct PastForecast {
  std::string series;      // its column, its id, or both: "store 7, sales"
  std::string origin, at;  // dates, or row numbers from 0, of the last row that the forecast knows and of the value
  std::int64_t ahead = 1;  // steps from `origin` to `at`
  double value = 0;        // NaN where missing
  double forecast = 0;
};
// Visits the forecasts of every window of a split of a forecast task, in order: window by window, then by series, then
// by steps ahead. Throws Error(usage) if the task is no forecast.
UNROLL_API void for_each_forecast(const Task& task, Split split, Forecaster& forecaster,
                                  const std::function<void(const PastForecast&)>& see);

// Split conformal prediction (Vovk, Gammerman & Shafer 2005; Lei et al. 2018, algorithm 2): the interval at level p is
// the forecast plus and minus the error that a share p of the forecasts of the validation set did not exceed, by series
// and steps ahead. It fits any model, and covers a share p of new values if their errors are like those. With an id
// column, errors of all ids count together, relative to the mean change from row to row in the history of each forecast
// (Lei et al. 2018, section 5.2).
class UNROLL_API ForecastIntervals {
 public:
  // Forecasts the windows of the validation set of a forecast task, at most 2,000 of them, evenly spread. Throws
  // Error(usage) if the task is no forecast.
  ForecastIntervals(const Task& task, Forecaster& forecaster);

  // The number of errors from which the interval of a series one step ahead is taken.
  std::int64_t n_errors(std::size_t series = 0) const;
  // The number of errors that an interval at `level`, between 0 and 1, needs.
  static std::int64_t least_errors(double level);
  // Returns the bounds of an interval at `level` around a forecast, NaN with fewer errors than that. They are rounded
  // to a millionth of the width. `ahead` is below the horizon of the model. `history` [rows, S] precedes the forecast.
  struct Bounds {
    double low, high;
  };
  Bounds bounds(double forecast, double level, std::int64_t ahead, std::size_t series,
                std::span<const double> history) const;

 private:
  double unit_of(std::span<const double> history, std::size_t series) const;

  std::size_t n_series_ = 0;
  bool is_relative_ = false, is_non_negative_ = false;
  std::vector<std::vector<double>> errors_;  // [H*S], absolute, ascending
};

}  // namespace unroll
