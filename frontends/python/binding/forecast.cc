// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/forecast.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <span>

#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "frontends/python/binding/arrays.h"
#include "frontends/python/binding/listener.h"
#include "frontends/python/binding/training_parts.h"
#include "unroll/tasks/backtest.h"
#include "unroll/tasks/predict_tables.h"

namespace unroll::python {

namespace {

struct ForecastTable {
  std::string id, date;
  std::vector<std::string> ids, dates, series, notes;
  std::vector<double> values;
  std::int64_t width = 0;
};

// bounds: [L,2,H,S]
void add_rows(const SeriesEnd& end, const Forecaster::Values& forecast, std::span<const double> bounds,
              ForecastTable& table) {
  const std::size_t S = table.series.size();
  for (std::size_t i = 0; i < end.next.size(); ++i) {
    table.ids.push_back(end.id);
    table.dates.push_back(end.next[i]);
    for (std::size_t s = 0; s < S; ++s) {
      table.values.push_back(forecast[i * S + s]);
      for (std::size_t at = i * S + s; at < bounds.size(); at += forecast.size()) table.values.push_back(bounds[at]);
    }
  }
}

ForecastTable forecast_of(const TrainRequest& request, const std::vector<double>& levels, Listener& listener) {
  constexpr std::size_t k_together = 256;
  Parts parts(request);
  parts.options.warn = [&](const std::string& text) { listener.warn(text); };
  Trainer trainer(parts.task, *parts.backend, parts.options);
  listener.fit(trainer);
  const Metadata metadata = parts.task->metadata();
  Forecaster forecaster(metadata, trainer.parameters(), *parts.backend);
  std::optional<ForecastIntervals> intervals;
  if (!levels.empty()) intervals.emplace(*parts.task, forecaster, levels);
  for (const double level : levels)
    if (intervals->n_errors() < ForecastIntervals::least_errors(level))
      listener.warn((forecaster.has_distribution() ? "uncalibrated interval at " : "no interval at ") +
                    short_text(100 * level, 6) + " %: the validation set has " +
                    counted(intervals->n_errors(), "window") + ", and " +
                    std::to_string(ForecastIntervals::least_errors(level)) +
                    " are needed. Raise data.validation or lower the horizon");
  const std::string path = parts.config.text("data.path");
  const SeriesEnds ends(metadata, open_table(path), path, forecaster.history(), forecaster.horizon());
  ForecastTable table{ends.id(), ends.date(), {}, {}, ends.columns(), parts.task->notes(), {}, 0};
  table.width = std::ssize(table.series) * (1 + 2 * std::ssize(levels));
  for (std::size_t begin = 0; begin < ends.size(); begin += k_together) {
    std::vector<SeriesEnd> some;
    std::vector<Forecaster::Values> histories, covariates;
    for (std::size_t i = begin; i < std::min(begin + k_together, ends.size()); ++i) {
      histories.push_back(some.emplace_back(ends.at(i)).values);
      covariates.push_back(std::move(some.back().covariates));
    }
    const std::vector<Forecaster::Values> forecasts = forecaster.predict(histories, 0, covariates);
    std::vector<Forecaster::Values> bounds(some.size());
    if (intervals && forecaster.has_distribution()) bounds = forecaster.bounds(histories, levels, covariates);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (intervals) bounds[i] = intervals->bounds(forecasts[i], some[i].values, bounds[i]);
      add_rows(some[i], forecasts[i], bounds[i], table);
    }
  }
  return table;
}

struct BacktestTable {
  std::vector<std::string> series, origin, at, methods{"unroll"};
  std::vector<double> value, forecasts, bounds;
  bool is_dated = false;
};

BacktestTable backtest_of(const TrainRequest& request, std::int64_t folds, bool refit,
                          const std::vector<double>& levels, Listener& listener) {
  Parts parts(request);
  BacktestOptions options{.folds = folds, .refit = refit, .levels = levels, .training = parts.options};
  options.training.warn = [&](const std::string& text) { listener.warn(text); };
  BacktestTable table;
  for (std::string& name : BaselineForecaster::names(*parts.task)) table.methods.push_back(std::move(name));
  table.is_dated = parts.task->metadata().contains("date_step");
  unroll::backtest(parts.task, *parts.backend, options, [&](std::int64_t, const PastForecast& f) {
    table.series.push_back(f.series);
    table.origin.push_back(f.origin);
    table.at.push_back(f.at);
    table.value.push_back(f.value);
    table.forecasts.push_back(f.forecast);
    table.forecasts.insert(table.forecasts.end(), f.baselines.begin(), f.baselines.end());
    table.bounds.insert(table.bounds.end(), f.bounds.begin(), f.bounds.end());
  });
  return table;
}

}  // namespace

nanobind::dict backtest(const TrainRequest& request, std::int64_t folds, bool refit,
                        const std::vector<double>& levels) {
  Listener listener(request.on_report);
  const BacktestTable table = listener.run([&] { return backtest_of(request, folds, refit, levels, listener); });
  nanobind::dict columns;
  columns["series"] = table.series;
  columns["origin"] = table.origin;
  columns["at"] = table.at;
  columns["methods"] = table.methods;
  const std::int64_t rows = std::ssize(table.value);
  columns["value"] = array_of(Tensor::from<double>({rows}, table.value));
  columns["forecasts"] = array_of(Tensor::from<double>({rows, std::ssize(table.methods)}, table.forecasts));
  columns["bounds"] = array_of(Tensor::from<double>({rows, 2 * std::ssize(levels)}, table.bounds));
  columns["is_dated"] = table.is_dated;
  return columns;
}

nanobind::dict forecast(const TrainRequest& request, const std::vector<double>& levels) {
  Listener listener(request.on_report);
  const ForecastTable table = listener.run([&] { return forecast_of(request, levels, listener); });
  nanobind::dict columns;
  columns["id"] = table.id;
  columns["date"] = table.date;
  columns["ids"] = table.ids;
  columns["dates"] = table.dates;
  columns["series"] = table.series;
  columns["notes"] = table.notes;
  columns["values"] = array_of(Tensor::from<double>({std::ssize(table.dates), table.width}, table.values));
  return columns;
}

}  // namespace unroll::python
