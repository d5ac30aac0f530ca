// SPDX-License-Identifier: Apache-2.0
// The baselines of a forecast: persistence, seasonal_naive, theta and linear_ar. Shapes: S series.
#include <algorithm>
#include <cmath>

#include "core/support/text/in_quotes.h"
#include "core/support/text/short_number.h"
#include "core/tasks/common/split_records.h"
#include "core/tasks/forecast/forecast_series.h"
#include "core/tasks/forecast/theta.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::string_view k_baselines[] = {"persistence", "seasonal_naive", "theta", "linear_ar"};

void fit_regressions(const BaselineData& data, std::span<Autoregression> regressions, std::size_t first) {
  SeriesCursor cursor(data.train);
  std::vector<double> before(data.options.window);
  data.trained.for_each([&](std::int64_t t) {
    const std::int64_t from = t - data.options.window;
    const SeriesPiece& piece = cursor.at(from - data.differencing.depth(), t + 1);
    for (std::size_t s = first; s < first + regressions.size(); ++s) {
      for (std::int64_t w = 0; w < data.options.window; ++w)
        before[w] = value_at(piece, from + w, s, data.differencing);
      regressions[s - first].learn(before, value_at(piece, t, s, data.differencing));
    }
  });
  for (Autoregression& a : regressions) a.solve();
}

}  // namespace

void ForecastErrors::add(double forecast, double value, double unit) {
  const double error = forecast - value, size = std::fabs(forecast) + std::fabs(value);
  absolute += std::fabs(error);
  if (size > 0) symmetric += 2 * std::fabs(error) / size;
  square += error * error;
  ++n;
  if (unit <= 0) return;
  scaled += std::fabs(error) / unit;
  ++n_scaled;
}

ForecastErrors& ForecastErrors::operator+=(const ForecastErrors& other) {
  absolute += other.absolute;
  square += other.square;
  n += other.n;
  symmetric += other.symmetric;
  scaled += other.scaled;
  n_scaled += other.n_scaled;
  return *this;
}

void ForecastErrors::put(std::map<std::string, double>& metrics, const std::string& suffix) const {
  if (n == 0) return;
  metrics["mae" + suffix] = absolute / n;
  metrics["rmse" + suffix] = std::sqrt(square / n);
  metrics["smape" + suffix] = 100 * symmetric / n;
  if (n_scaled > 0) metrics["mase" + suffix] = scaled / n_scaled;
}

SeriesBaselines::SeriesBaselines(const BaselineData& data, bool regresses)
    : differencing_(data.differencing), window_(data.options.window), horizon_(data.options.horizon),
      period_(data.options.period) {
  if (!regresses || data.train.id_column() != "none") return;
  constexpr std::size_t k_room = std::size_t{1} << 23;  // maximum elements of the normal equations in memory
  const std::size_t order = window_ + 1, together = std::max<std::size_t>(k_room / (order * order), 1);
  for (std::size_t begin = 0, S = data.train.n_series(); begin < S; begin += together) {
    regressions_.resize(std::min(begin + together, S), Autoregression(window_));
    fit_regressions(data, std::span(regressions_).subspan(begin), begin);
  }
}

std::span<const std::string_view> SeriesBaselines::names() const {
  return std::span(k_baselines).first(std::size(k_baselines) - (regressions_.empty() ? 1 : 0));
}

std::int64_t SeriesBaselines::history(std::string_view name) const {
  if (name == "theta") return theta_history(period_);
  return name == "persistence" ? 1 : name == "seasonal_naive" ? period_ : window_ + differencing_.depth();
}

std::vector<double> SeriesBaselines::path(std::string_view name, std::span<const double> past, std::size_t series,
                                          std::int64_t steps) const {
  if (name == "theta") return theta_forecast(past, period_, steps);
  const auto level = [&](std::int64_t back) { return past[std::max<std::int64_t>(std::ssize(past) - back, 0)]; };
  std::vector<double> values;
  if (name == "linear_ar") {
    for (std::int64_t w = window_; w > 0; --w)
      values.push_back(differencing_.at([&](std::int64_t back) { return level(w + back); }));
    values = regressions_[series].predict(values, steps);
    differencing_.integrate(level, values);
    return values;
  }
  // Seasonal: the last value before the forecast at a distance of whole seasons.
  for (std::int64_t h = 0; h < steps; ++h)
    values.push_back(level(name == "persistence" ? 1 : (h / period_ + 1) * period_ - h));
  return values;
}

std::vector<MethodErrors> method_errors(const BaselineData& data, const SeriesWindows& scored) {
  const SeriesBaselines baselines(data);
  const std::int64_t H = baselines.horizon();
  std::int64_t back = 1;
  for (const std::string_view name : baselines.names()) back = std::max(back, baselines.history(name));
  const std::size_t S = scored.rows.n_series();
  std::vector<MethodErrors> errors(S);
  SeriesCursor cursor(scored.rows);
  std::vector<double> past;
  scored.at.for_each([&](std::int64_t t) {
    const std::size_t segment = scored.rows.segment_at(t);
    const std::int64_t first = std::max(t - back, scored.rows.segments()[segment].begin);
    const SeriesPiece& piece = cursor.at(first, t + H);
    for (std::size_t s = 0; s < S; ++s) {
      past.clear();
      for (std::int64_t r = first; r < t; ++r) past.push_back(piece.level(r, s));
      for (const std::string_view name : baselines.names()) {
        const std::vector<double> predicted = baselines.path(name, past, s, H);
        for (std::int64_t h = 0; h < H; ++h)
          if (piece.is_observed(t + h, s))
            errors[s][name].add(predicted[h], piece.level(t + h, s), scored.seasonal[segment * S + s]);
      }
    }
  });
  return errors;
}

std::vector<std::string> BaselineForecaster::names(const Task& task) {
  const auto* series = dynamic_cast<const SplitSeries*>(&task);
  if (!series) throw Error(ErrorKind::usage, "BaselineForecaster", "the task is no forecast");
  const bool regresses = series->series(Split::train).id_column() == "none";
  return {std::begin(k_baselines), std::end(k_baselines) - (regresses ? 0 : 1)};
}

BaselineForecaster::BaselineForecaster(const Task& task, const std::string& name) : name_(name) {
  std::string known;
  for (const std::string& one : names(task)) known += (known.empty() ? "" : ", ") + one;
  if (std::ranges::count(names(task), name) == 0)
    throw Error(ErrorKind::usage, "BaselineForecaster", "there is no baseline " + in_quotes(name),
                "Name one of " + known);
  const auto& series = dynamic_cast<const SplitSeries&>(task);
  n_series_ = series.series(Split::train).n_series();
  baselines_ = series.fit_baselines(name == "linear_ar");
}

std::int64_t BaselineForecaster::horizon() const { return baselines_->horizon(); }
std::int64_t BaselineForecaster::history() const { return baselines_->history(name_); }

std::vector<std::vector<double>> BaselineForecaster::predict(std::span<const std::vector<double>> histories,
                                                             std::int64_t steps) const {
  constexpr double k_precision = 1e-7;  // of computed values, as those of a model
  const bool repeats = name_ == "persistence" || name_ == "seasonal_naive";
  const std::size_t S = n_series_;
  if (steps == 0) steps = horizon();
  std::vector<std::vector<double>> forecasts;
  std::vector<double> past;
  for (const std::vector<double>& history : histories) {
    if (history.empty() || history.size() % S != 0)
      throw Error(ErrorKind::usage, "BaselineForecaster",
                  std::to_string(history.size()) + " values do not divide into rows of " + std::to_string(S));
    std::vector<double>& forecast = forecasts.emplace_back(steps * S);
    for (std::size_t s = 0; s < S; ++s) {
      past.clear();
      for (std::size_t i = s; i < history.size(); i += S) past.push_back(history[i]);
      const std::vector<double> path = baselines_->path(name_, past, s, steps);
      for (std::int64_t h = 0; h < steps; ++h)
        forecast[h * S + s] = repeats ? path[h] : shortest_near(path[h], k_precision * std::fabs(path[h]));
    }
  }
  return forecasts;
}

}  // namespace unroll
