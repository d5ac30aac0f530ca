// SPDX-License-Identifier: Apache-2.0
// Shapes: H horizon, S series.
#include "unroll/tasks/backtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/data/series/series_rows.h"
#include "core/support/text/short_number.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/forecast/form/covariates.h"
#include "unroll/support/error.h"
#include "unroll/tasks/forecast.h"

namespace unroll {

namespace {

constexpr std::int64_t k_most_windows = 2'000;  // for intervals
constexpr std::size_t k_windows_at_once = 64;

const SplitSeries& series_of(const Task& task, const char* where) {
  if (const auto* series = dynamic_cast<const SplitSeries*>(&task)) return *series;
  throw Error(ErrorKind::usage, where, "the task is no forecast");
}

// Calls see(first row of the targets, rows of the targets [H,S], forecast [H,S], history [rows,S]) for at most `most`
// windows, evenly spread.
template <class Method, class F>
void for_each_window(const SplitSeries& task, Split split, Method& forecaster, std::int64_t most, const F& see) {
  const SeriesRows& rows = task.series(split);
  const Runs& windows = task.windows(split);
  const std::int64_t every = std::max<std::int64_t>((windows.size() + most - 1) / most, 1);
  std::vector<Forecaster::Values> histories, covariates;
  std::vector<std::int64_t> starts;
  SeriesPiece piece;
  for (std::int64_t i = 0; i < windows.size(); i += every) {
    const std::int64_t t = windows[i];
    rows.read_window(t - forecaster.history(), t, piece);
    if (std::is_same_v<Method, Forecaster> && task.interpolates()) piece.interpolate(t);
    histories.push_back(piece.levels);
    if constexpr (std::is_same_v<Method, Forecaster>)
      covariates.push_back(covariates_around(task.covariates(), rows, t - forecaster.history(), t,
                                             t + forecaster.horizon()));
    starts.push_back(t);
    if (starts.size() < k_windows_at_once && i + every < windows.size()) continue;
    std::vector<Forecaster::Values> forecasts;
    if constexpr (std::is_same_v<Method, Forecaster>) forecasts = forecaster.predict(histories, 0, covariates);
    else forecasts = forecaster.predict(histories);
    for (std::size_t k = 0; k < starts.size(); ++k) {
      rows.read(starts[k], starts[k] + forecaster.horizon(), piece);
      see(starts[k], piece, forecasts[k], histories[k]);
    }
    histories.clear();
    covariates.clear();
    starts.clear();
  }
}

}  // namespace

void for_each_forecast(const Task& task, Split split, Forecaster& forecaster,
                       const std::function<void(const PastForecast&)>& see,
                       std::span<const BaselineForecaster> baselines) {
  const SplitSeries& series = series_of(task, "for_each_forecast");
  const SeriesRows& rows = series.series(split);
  const std::size_t S = rows.n_series();
  std::vector<Forecaster::Values> history(1), others(baselines.size());
  SeriesPiece past;
  const auto visit = [&](std::int64_t first, const SeriesPiece& piece, const Forecaster::Values& forecast,
                         const Forecaster::Values&) {
    const SeriesSegment& segment = rows.segment_of(first);
    for (std::size_t b = 0; b < baselines.size(); ++b) {
      rows.read_window(first - baselines[b].history(), first, past);
      history[0] = past.levels;
      others[b] = std::move(baselines[b].predict(history)[0]);
    }
    const std::span<const double> units = series.units_at(split, first);
    for (std::size_t s = 0; s < S; ++s)
      for (std::int64_t h = 0; h < forecaster.horizon(); ++h) {
        const std::size_t k = static_cast<std::size_t>(h) * S + s;
        PastForecast f{rows.series_name(segment, s), rows.place(segment, first - 1), rows.place(segment, first + h),
                       h + 1, piece.is_observed(first + h, s) ? piece.level(first + h, s) : std::nan(""), forecast[k]};
        for (const Forecaster::Values& other : others) f.baselines.push_back(other[k]);
        f.unit = units[s];
        see(f);
      }
  };
  for_each_window(series, split, forecaster, std::numeric_limits<std::int64_t>::max() / 2, visit);
}

void backtest(const std::shared_ptr<const Task>& task, BackendHandle backend, const BacktestOptions& options,
              const std::function<void(std::int64_t, const PastForecast&)>& see) {
  const SplitSeries& series = series_of(*task, "backtest");
  if (&series.series(Split::test) != &series.series(Split::train))
    throw Error(ErrorKind::usage, "backtest", "the test set is a separate file",
                "Set data.test to a share of the data");
  if (const std::int64_t n = series.windows(Split::test).size(); options.folds < 1 || options.folds > n)
    throw Error(ErrorKind::usage, "backtest",
                "folds must be between 1 and the number of test windows, " + std::to_string(n) + "; got " +
                    std::to_string(options.folds), "Raise data.test, or ask for fewer folds");
  std::optional<TensorMap> best;
  std::vector<BaselineForecaster> baselines;
  for (std::int64_t fold = 0; fold < options.folds; ++fold) {
    const std::shared_ptr<const Task> part = series.test_fold(fold, options.folds, options.refit);
    if (series_of(*part, "backtest").windows(Split::test).empty())
      throw Error(ErrorKind::usage, "backtest",
                  "fold " + std::to_string(fold + 1) + " of " + std::to_string(options.folds) + " has no window",
                  "Raise data.test, or ask for fewer folds");
    if (fold == 0 || options.refit) {
      best.reset();
      Trainer trainer(part, backend, options.training);
      trainer.fit(
          [&](const Progress& progress) {
            if (progress.best) best = trainer.parameters();
            if (options.report) options.report(fold + 1, progress);
          },
          options.stop);
      if (options.stop && options.stop()) return;
      if (!best) best = trainer.parameters();  // no validation set
      baselines.clear();
      for (const std::string& name : BaselineForecaster::names(*part)) baselines.emplace_back(*part, name);
    }
    Forecaster forecaster(part->metadata(), *best, backend);
    for_each_forecast(*part, Split::test, forecaster, [&](const PastForecast& f) { see(fold + 1, f); }, baselines);
  }
}

ForecastIntervals::ForecastIntervals(const Task& task, Forecaster& forecaster) { learn(task, forecaster); }
ForecastIntervals::ForecastIntervals(const Task& task, const BaselineForecaster& forecaster) {
  learn(task, forecaster);
}

template <class Method>
void ForecastIntervals::learn(const Task& task, Method& forecaster) {
  const SplitSeries& series = series_of(task, "ForecastIntervals");
  n_series_ = series.series(Split::validation).n_series();
  is_non_negative_ = task.metadata().contains("non_negative");
  is_relative_ = series.series(Split::train).id_column() != "none";
  errors_.resize(static_cast<std::size_t>(forecaster.horizon()) * n_series_);
  for_each_window(series, Split::validation, forecaster, k_most_windows,
                  [&](std::int64_t, const SeriesPiece& piece, const Forecaster::Values& forecast,
                      const Forecaster::Values& history) {
                    for (std::size_t k = 0; k < errors_.size(); ++k) {
                      const double unit = unit_of(history, k % n_series_);
                      if (piece.observed[k] != 0 && unit > 0)
                        errors_[k].push_back(std::fabs(forecast[k] - piece.levels[k]) / unit);
                    }
                  });
  for (std::vector<double>& errors : errors_) std::sort(errors.begin(), errors.end());
}

double ForecastIntervals::unit_of(std::span<const double> history, std::size_t series) const {
  if (!is_relative_) return 1;
  double sum = 0;
  for (std::size_t i = n_series_ + series; i < history.size(); i += n_series_)
    sum += std::fabs(history[i] - history[i - n_series_]);
  return sum / static_cast<double>(history.size() / n_series_);
}

std::int64_t ForecastIntervals::n_errors(std::size_t series) const { return std::ssize(errors_.at(series)); }

std::int64_t ForecastIntervals::least_errors(double level) {
  return static_cast<std::int64_t>(std::ceil(level / (1 - level) - 1e-9));
}

// Half the width is the smallest error that ceil((n + 1) p) of the n errors do not exceed.
ForecastIntervals::Bounds ForecastIntervals::bounds(double forecast, double level, std::int64_t ahead,
                                                    std::size_t series, std::span<const double> history) const {
  constexpr double k_precision = 1e-6;  // of the width
  const std::vector<double>& errors = errors_.at(static_cast<std::size_t>(ahead) * n_series_ + series);
  const double rank = std::ceil((static_cast<double>(errors.size()) + 1) * level * (1 - 1e-12));
  if (rank > static_cast<double>(errors.size())) return {std::nan(""), std::nan("")};
  const double half = errors[static_cast<std::size_t>(std::max(rank, 1.0)) - 1] * unit_of(history, series);
  const auto rounded = [&](double bound) {
    return shortest_near(is_non_negative_ ? std::max(bound, 0.0) : bound, k_precision * half);
  };
  return {rounded(forecast - half), rounded(forecast + half)};
}

}  // namespace unroll
