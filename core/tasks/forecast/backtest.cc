// SPDX-License-Identifier: Apache-2.0
// Shapes: H horizon, S series.
#include "unroll/tasks/backtest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/data/series/series_rows.h"
#include "core/support/text/short_number.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/forecast/form/forecast_form.h"
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

// A window of a split, with what a method forecasts for it.
struct ForecastWindow {
  std::int64_t first;            // row of the targets
  const SeriesPiece& targets;    // [H,S]
  const std::vector<double>&forecast, &bounds, &history;  // [H,S], as Forecaster::bounds or empty, [rows,S]
};

// Visits at most `most` windows, evenly spread. Bounds are those of a model with a distribution.
template <class Method, class F>
void for_each_window(const SplitSeries& task, Split split, Method& forecaster, std::span<const double> levels,
                     std::int64_t most, const F& see) {
  constexpr bool k_is_model = std::is_same_v<Method, Forecaster>;
  const SeriesRows& rows = task.series(split);
  const Runs& windows = task.windows(split);
  const std::int64_t every = std::max<std::int64_t>((windows.size() + most - 1) / most, 1);
  std::vector<Forecaster::Values> histories, covariates;
  std::vector<std::int64_t> starts;
  SeriesPiece piece;
  for (std::int64_t i = 0; i < windows.size(); i += every) {
    const std::int64_t t = windows[i];
    rows.read_window(t - forecaster.history(), t, piece);
    if (k_is_model && task.interpolates()) piece.interpolate(t);
    histories.push_back(piece.levels);
    if constexpr (k_is_model)
      covariates.push_back(covariates_around(task.covariates(), rows, t - forecaster.history(), t,
                                             t + forecaster.horizon()));
    starts.push_back(t);
    if (starts.size() < k_windows_at_once && i + every < windows.size()) continue;
    std::vector<Forecaster::Values> forecasts, bounds(starts.size());
    if constexpr (k_is_model) {
      forecasts = forecaster.predict(histories, 0, covariates);
      if (!levels.empty() && forecaster.has_distribution()) bounds = forecaster.bounds(histories, levels, covariates);
    } else {
      forecasts = forecaster.predict(histories);
    }
    for (std::size_t k = 0; k < starts.size(); ++k) {
      rows.read(starts[k], starts[k] + forecaster.horizon(), piece);
      see(ForecastWindow{starts[k], piece, forecasts[k], bounds[k], histories[k]});
    }
    histories.clear();
    covariates.clear();
    starts.clear();
  }
}

}  // namespace

void for_each_forecast(const Task& task, Split split, Forecaster& forecaster,
                       const std::function<void(const PastForecast&)>& see,
                       std::span<const BaselineForecaster> baselines, const ForecastIntervals* intervals) {
  const SplitSeries& series = series_of(task, "for_each_forecast");
  const SeriesRows& rows = series.series(split);
  const std::size_t S = rows.n_series();
  std::vector<Forecaster::Values> history(1), others(baselines.size());
  SeriesPiece past;
  const std::span<const double> levels = intervals ? intervals->levels() : std::span<const double>();
  const auto visit = [&](const ForecastWindow& window) {
    const std::int64_t first = window.first;
    const SeriesPiece& piece = window.targets;
    const SeriesSegment& segment = rows.segment_of(first);
    Forecaster::Values bounds;
    if (intervals) bounds = intervals->bounds(window.forecast, window.history, window.bounds);
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
                       h + 1, piece.is_observed(first + h, s) ? piece.level(first + h, s) : std::nan(""),
                       window.forecast[k]};
        for (const Forecaster::Values& other : others) f.baselines.push_back(other[k]);
        for (std::size_t at = k; at < bounds.size(); at += window.forecast.size()) f.bounds.push_back(bounds[at]);
        f.unit = units[s];
        see(f);
      }
  };
  for_each_window(series, split, forecaster, levels, std::numeric_limits<std::int64_t>::max() / 2, visit);
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
    std::optional<ForecastIntervals> intervals;
    if (!options.levels.empty()) intervals.emplace(*part, forecaster, options.levels);
    for_each_forecast(*part, Split::test, forecaster, [&](const PastForecast& f) { see(fold + 1, f); }, baselines,
                      intervals ? &*intervals : nullptr);
  }
}

ForecastIntervals::ForecastIntervals(const Task& task, Forecaster& forecaster, std::vector<double> levels)
    : levels_(std::move(levels)) {
  learn(task, forecaster);
}
ForecastIntervals::ForecastIntervals(const Task& task, const BaselineForecaster& forecaster,
                                     std::vector<double> levels)
    : levels_(std::move(levels)) {
  learn(task, forecaster);
}

template <class Method>
void ForecastIntervals::learn(const Task& task, Method& forecaster) {
  const SplitSeries& series = series_of(task, "ForecastIntervals");
  n_series_ = series.series(Split::validation).n_series();
  n_values_ = static_cast<std::size_t>(forecaster.horizon()) * n_series_;
  const Metadata metadata = task.metadata();
  is_non_negative_ = metadata.contains("non_negative");
  are_counts_ = get_form(metadata).distribution.is_of_counts();
  is_relative_ = series.series(Split::train).id_column() != "none";
  errors_.resize(n_values_);
  if constexpr (std::is_same_v<Method, Forecaster>)
    if (forecaster.has_distribution()) errors_.resize(levels_.size() * n_values_);
  for_each_window(series, Split::validation, forecaster, levels_, k_most_windows, [&](const ForecastWindow& w) {
    for (std::size_t k = 0; k < n_values_; ++k) {
      if (w.targets.observed[k] == 0) continue;
      const double value = w.targets.levels[k];
      if (w.bounds.empty()) {
        if (const double unit = unit_of(w.history, k % n_series_); unit > 0)
          errors_[k].push_back(std::fabs(w.forecast[k] - value) / unit);
        continue;
      }
      for (std::size_t l = 0; l < levels_.size(); ++l) {
        const double low = w.bounds[2 * l * n_values_ + k], high = w.bounds[(2 * l + 1) * n_values_ + k];
        if (high > low) errors_[l * n_values_ + k].push_back(std::max(low - value, value - high) / (high - low));
      }
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

namespace {

// Returns the smallest error that ceil((n + 1) p) of the n errors do not exceed; nothing with too few of them.
std::optional<double> error_at(std::span<const double> errors, double level) {
  const double rank = std::ceil((static_cast<double>(errors.size()) + 1) * level * (1 - 1e-12));
  if (rank > static_cast<double>(errors.size())) return std::nullopt;
  return errors[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

std::vector<double> ForecastIntervals::bounds(std::span<const double> forecast, std::span<const double> history,
                                              std::span<const double> of_model) const {
  constexpr double k_precision = 1e-6;  // of the width
  const std::size_t n = std::min(forecast.size(), n_values_);
  std::vector<double> all(2 * levels_.size() * n, std::nan(""));
  for (std::size_t l = 0; l < levels_.size(); ++l)
    for (std::size_t k = 0; k < n; ++k) {
      double middle = forecast[k], half = 0;
      if (of_model.empty()) {
        const std::optional<double> error = error_at(errors_[k], levels_[l]);
        if (!error) continue;
        half = *error * unit_of(history, k % n_series_);
      } else {
        const double low = of_model[2 * l * n_values_ + k], width = of_model[(2 * l + 1) * n_values_ + k] - low;
        middle = low + width / 2;
        half = width * std::max(0.5 + error_at(errors_[l * n_values_ + k], levels_[l]).value_or(0), 0.0);
      }
      const auto rounded = [&](double bound) {
        return shortest_near(is_non_negative_ ? std::max(bound, 0.0) : bound, k_precision * half);
      };
      const double low = std::min(middle - half, forecast[k]), high = std::max(middle + half, forecast[k]);
      all[2 * l * n + k] = are_counts_ ? std::max(std::floor(low), 0.0) : rounded(low);
      all[(2 * l + 1) * n + k] = are_counts_ ? std::ceil(high) : rounded(high);
    }
  return all;
}

namespace {
constexpr std::array k_decile_levels{0.8, 0.6, 0.4, 0.2};
}

std::vector<double> IntervalScores::levels(std::span<const double> scored) {
  std::vector<double> all(k_decile_levels.begin(), k_decile_levels.end());
  all.insert(all.end(), scored.begin(), scored.end());
  return all;
}

IntervalScores::IntervalScores(std::span<const double> scored)
    : scored_(scored.begin(), scored.end()), covered_(scored.size()), width_(scored.size()), n_scored_(scored.size()) {}

void IntervalScores::add(const PastForecast& f) {
  if (std::isnan(f.value) || f.bounds.empty()) return;
  for (std::size_t l = 0; l < scored_.size(); ++l) {
    const std::size_t at = 2 * (k_decile_levels.size() + l);
    const double low = f.bounds[at], high = f.bounds[at + 1];
    if (std::isnan(low)) continue;
    covered_[l] += f.value >= low && f.value <= high;
    width_[l] += high - low;
    ++n_scored_[l];
  }
  const auto loss = [&](double share, double quantile) {
    const double error = f.value - quantile;
    return std::max(share * error, (share - 1) * error);
  };
  double sum = loss(0.5, f.forecast);
  for (std::size_t l = 0; l < k_decile_levels.size(); ++l) {
    const double tail = (1 - k_decile_levels[l]) / 2;
    sum += loss(tail, f.bounds[2 * l]) + loss(1 - tail, f.bounds[2 * l + 1]);
  }
  const double crps = 2 * sum / (2 * k_decile_levels.size() + 1);
  if (std::isnan(crps)) return;  // without the widest of the intervals
  crps_ += crps;
  absolute_ += std::fabs(f.value);
  ++n_;
  if (f.unit > 0) {
    scaled_ += crps / f.unit;
    ++n_scaled_;
  }
}

void IntervalScores::put(std::map<std::string, double>& metrics) const {
  if (n_ > 0) metrics["crps"] = crps_ / n_;
  if (n_scaled_ > 0) metrics["scaled_crps"] = scaled_ / n_scaled_;
  if (absolute_ > 0) metrics["wql"] = crps_ / absolute_;
  for (std::size_t l = 0; l < scored_.size(); ++l) {
    if (n_scored_[l] == 0) continue;
    std::string level = short_text(100 * scored_[l], 6);
    std::ranges::replace(level, '.', '_');  // behind a dot stands a series
    metrics["coverage_" + level] = covered_[l] / n_scored_[l];
    metrics["width_" + level] = width_[l] / n_scored_[l];
  }
}

}  // namespace unroll
