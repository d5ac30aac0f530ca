// SPDX-License-Identifier: Apache-2.0
#include "frontends/model/tasks/forecast_series.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "unroll/error.h"

namespace unroll {

std::vector<std::string> columns_of(const ForecastOptions& o) {
  if (o.columns.empty()) return {o.column};
  if (!o.column.empty())
    throw Error(ErrorKind::usage, "forecast", "both column and columns are given", "Give columns alone");
  std::set<std::string_view> seen;
  for (const std::string& name : o.columns) {
    if (name.empty()) throw Error(ErrorKind::usage, "forecast", "columns has an empty name", "Name each column");
    if (!seen.insert(name).second)
      throw Error(ErrorKind::usage, "forecast", "columns has '" + name + "' twice", "Name each column once");
  }
  return o.columns;
}

ForecastErrors& ForecastErrors::operator+=(const ForecastErrors& other) {
  absolute += other.absolute;
  square += other.square;
  n += other.n;
  scaled += other.scaled;
  n_scaled += other.n_scaled;
  return *this;
}

void ForecastErrors::put(std::map<std::string, double>& metrics, const std::string& suffix) const {
  if (n == 0) return;
  metrics["mae" + suffix] = absolute / n;
  metrics["rmse" + suffix] = std::sqrt(square / n);
  if (n_scaled > 0) metrics["mase" + suffix] = scaled / n_scaled;
}

ForecastSeries::ForecastSeries(std::string name, Series series, const ForecastOptions& options)
    : name_(std::move(name)),
      series_(std::move(series)),
      values_(options.difference ? differences(series_.level) : series_.level),
      difference_(options.difference),
      window_(options.window),
      horizon_(options.horizon),
      period_(options.period) {}

// Levels have one scale wherever they are; changes grow with their distance.
void ForecastSeries::fit(std::span<const std::int64_t> windows, std::int64_t train_end) {
  const auto first = static_cast<std::size_t>(difference_ ? 1 : 0);
  ahead_ = {ZScore::fit(std::span(values_).subspan(first, static_cast<std::size_t>(train_end) - first))};
  if (!difference_) ahead_.resize(static_cast<std::size_t>(horizon_), ahead_[0]);
  for (auto h = static_cast<std::int64_t>(ahead_.size()); h < horizon_; ++h) {
    std::vector<double> changes;
    for (const std::int64_t t : windows) changes.push_back(target_of(t, h));
    ahead_.push_back(ZScore::fit(changes));
  }
}

void ForecastSeries::fit_seasonal_error(std::int64_t train_end) {
  double sum = 0, n = 0;
  for (std::int64_t t = period_; t < train_end; ++t) {
    if (!is_observed(t)) continue;
    sum += std::fabs(level(t) - level(t - period_));
    ++n;
  }
  seasonal_error_ = n > 0 ? sum / n : 0;
}

// The values from t on.
std::vector<double> ForecastSeries::path(std::string_view method, const Autoregression& ar, std::int64_t t) const {
  if (method == "linear_ar") {
    std::vector<double> values = ar.predict(values_, t, horizon_);
    double last = level(t - 1);
    if (difference_)
      for (double& value : values) value = last += value;
    return values;
  }
  std::vector<double> values;
  for (std::int64_t h = 0; h < horizon_; ++h)  // seasonal: the last value before t that is whole seasons before t + h
    values.push_back(level(method == "persistence" ? t - 1 : t + h - (h / period_ + 1) * period_));
  return values;
}

std::map<std::string_view, ForecastErrors> ForecastSeries::errors(std::span<const std::int64_t> test,
                                                                  std::span<const std::int64_t> train) const {
  const Autoregression ar = Autoregression::fit(values_, train, window_);
  std::map<std::string_view, ForecastErrors> all;
  for (const std::string_view method : k_methods) {
    ForecastErrors& e = all[method];
    for (const std::int64_t t : test) {
      const std::vector<double> predicted = path(method, ar, t);
      for (std::int64_t h = 0; h < horizon_; ++h) {
        if (!is_observed(t + h)) continue;
        const double error = predicted[static_cast<std::size_t>(h)] - level(t + h);
        e.absolute += std::fabs(error);
        e.square += error * error;
        ++e.n;
      }
    }
    if (seasonal_error_ > 0) {
      e.scaled = e.absolute / seasonal_error_;
      e.n_scaled = e.n;
    }
  }
  return all;
}

}  // namespace unroll
