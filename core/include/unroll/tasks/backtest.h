// SPDX-License-Identifier: Apache-2.0
// Forecasts of known values by a model or a baseline: of the windows of a split, of a test set in parts, and prediction
// intervals from their errors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/export.h"
#include "unroll/train/trainer.h"

namespace unroll {

class Forecaster;
class ForecastIntervals;
class SeriesBaselines;

// Error sums over observed values; add them for several series.
struct UNROLL_API ForecastErrors {
  double absolute = 0, square = 0, n = 0;
  double scaled = 0, n_scaled = 0;  // in units of mase, if there is one
  double symmetric = 0;             // relative to the mean of value and forecast

  void add(double forecast, double value, double unit);  // a unit of 0: there is none
  ForecastErrors& operator+=(const ForecastErrors& other);
  // Adds mae, rmse, smape (in percent, as in the M competitions) and, if defined, mase, with `suffix` after each name;
  // adds nothing if n is 0.
  void put(std::map<std::string, double>& metrics, const std::string& suffix) const;
};

// Forecasts with a baseline of a forecast task in place of a model.
class UNROLL_API BaselineForecaster {
 public:
  // Fits the baseline to the training set. Throws Error(usage) if the task is no forecast or has no such baseline.
  BaselineForecaster(const Task& task, const std::string& name);
  // Returns persistence, seasonal_naive, theta and, without an id column, linear_ar.
  static std::vector<std::string> names(const Task& task);

  std::int64_t horizon() const;
  std::int64_t history() const;  // rows that the baseline reads
  // As Forecaster::predict. A history has at least one row; earlier rows are equal to the first.
  std::vector<std::vector<double>> predict(std::span<const std::vector<double>> histories,
                                           std::int64_t steps = 0) const;

 private:
  std::string name_;
  std::size_t n_series_;
  std::shared_ptr<const SeriesBaselines> baselines_;
};

// One value of a forecast.
struct PastForecast {
  std::string series;      // its column, its id, or both: "store 7, sales"
  std::string origin, at;  // dates, or row numbers from 0, of the last row that the forecast knows and of the value
  std::int64_t ahead = 1;  // steps from `origin` to `at`
  double value = 0;        // NaN where missing
  double forecast = 0;
  std::vector<double> baselines = {};  // the forecast of each baseline that was asked for
  double unit = 0;                     // of mase: the training error of seasonal_naive one step ahead; 0: none
  std::vector<double> bounds = {};     // of the intervals that were asked for: low, high of each level
};
// Visits the forecasts of every window of a split of a forecast task, in order: window by window, then by series, then
// by steps ahead. Throws Error(usage) if the task is no forecast.
UNROLL_API void for_each_forecast(const Task& task, Split split, Forecaster& forecaster,
                                  const std::function<void(const PastForecast&)>& see,
                                  std::span<const BaselineForecaster> baselines = {},
                                  const ForecastIntervals* intervals = nullptr);

// Evaluation with a rolling origin (Tashman 2000). The test windows of each series are cut into `folds` equal parts, in
// time order.
struct BacktestOptions {
  std::int64_t folds = 5;
  bool refit = true;  // train anew on the rows before each part; false: once, on the rows before the test set
  std::vector<double> levels = {};  // of intervals, between 0 and 1
  TrainerOptions training = {};
  std::function<void(std::int64_t fold, const Progress& progress)> report = {};
  std::function<bool()> stop = {};  // as for Trainer::fit; ends the backtest
};
// Trains a model for each part, takes its parameters with the best validation loss, and visits the forecasts of the
// part, with all baselines of the task. `fold` begins with 1. Windows, differences and scales stay those of `task`.
// Throws Error(usage) if the task is no forecast, if its test set is a separate file or a part has no window, and the
// errors of Trainer.
UNROLL_API void backtest(const std::shared_ptr<const Task>& task, BackendHandle backend,
                         const BacktestOptions& options,
                         const std::function<void(std::int64_t fold, const PastForecast&)>& see);

// Split conformal prediction (Vovk, Gammerman & Shafer 2005; Lei et al. 2018, algorithm 2): the interval at level p is
// the forecast plus and minus the error that a share p of the forecasts of the validation set did not exceed, by series
// and steps ahead. It fits any model, and covers a share p of new values if their errors are like those. With an id
// column, errors of all ids count together, relative to the mean change from row to row in the history of each forecast
// (Lei et al. 2018, section 5.2). The bounds of a model with a distribution are moved: by the share of their distance
// that a share p of the values needs (Romano, Patterson & Candes 2019, section 4). With too few values they stay.
class UNROLL_API ForecastIntervals {
 public:
  // Forecasts the windows of the validation set of a forecast task, at most 2,000 of them, evenly spread. Levels are
  // between 0 and 1. Throws Error(usage) if the task is no forecast.
  ForecastIntervals(const Task& task, Forecaster& forecaster, std::vector<double> levels);
  ForecastIntervals(const Task& task, const BaselineForecaster& forecaster, std::vector<double> levels);

  std::span<const double> levels() const { return levels_; }
  // The number of errors from which the interval of a series one step ahead is taken.
  std::int64_t n_errors(std::size_t series = 0) const;
  // The number of errors that an interval at `level`, between 0 and 1, needs.
  static std::int64_t least_errors(double level);
  // Returns the bounds [L,2,steps,S] around a forecast [steps,S], at most H steps, as Forecaster::bounds; NaN with too
  // few errors. They contain the forecast, and are rounded to a millionth of the width, those of counts to counts.
  // `history` [rows, S] precedes the forecast. `of_model` is what Forecaster::bounds gives, and empty without a
  // distribution.
  std::vector<double> bounds(std::span<const double> forecast, std::span<const double> history,
                             std::span<const double> of_model = {}) const;

 private:
  template <class Method>
  void learn(const Task& task, Method& method);
  double unit_of(std::span<const double> history, std::size_t series) const;

  std::vector<double> levels_;
  std::size_t n_series_ = 0, n_values_ = 0;  // S, H*S
  bool is_relative_ = false, is_non_negative_ = false, are_counts_ = false;
  // [H*S], absolute, ascending. With a distribution [L,H*S]: how far values are beyond the bounds, in their distance.
  std::vector<std::vector<double>> errors_;
};

// Scores of intervals over observed values.
class UNROLL_API IntervalScores {
 public:
  // Four levels, whose bounds are the deciles of a forecast, and then the levels to score.
  static std::vector<double> levels(std::span<const double> scored);
  explicit IntervalScores(std::span<const double> scored);

  void add(const PastForecast& forecast);  // bounds at `levels`; skipped without a value or without bounds
  // Adds coverage_80, the share of values within the interval at 80 %, and width_80 (coverage_97_5 at 97.5 %). Then
  // crps, the continuous ranked probability score, as twice the mean quantile loss of the deciles (Gneiting & Raftery
  // 2007, section 4.2), scaled_crps, in units of mase, if there is one, and wql, relative to the mean absolute value.
  void put(std::map<std::string, double>& metrics) const;

 private:
  std::vector<double> scored_;
  std::vector<double> covered_, width_, n_scored_;  // sums by level
  double n_ = 0, crps_ = 0, scaled_ = 0, n_scaled_ = 0, absolute_ = 0;
};

}  // namespace unroll
