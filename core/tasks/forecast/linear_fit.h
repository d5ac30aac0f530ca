// SPDX-License-Identifier: Apache-2.0
// Linear forecasts by least squares: the start of a model's linear part, and the trials that choose differences, scale
// and window. Shapes: W window, R values that a linear forecast reads, H horizon, S series.
#pragma once

#include <span>
#include <vector>

#include "core/tasks/forecast/forecast_series.h"

namespace unroll {

// Sizes and form of a forecast.
struct ForecastShape {
  ForecastForm form;
  std::int64_t window = 1, horizon = 1;
  // First row that a window ending before t reads.
  std::int64_t first_before(std::int64_t t) const { return t - window - form.depth(); }
};

// Fits the linear part of a model to the training positions `windows`. A series without a complete target starts at
// zero.
LinearStart fit_linear(const SeriesRows& rows, const Runs& windows, const ForecastShape& shape,
                       std::span<const std::vector<ZScore>> scales);

// Rows of a trial, in memory: fitted before `cut`, scored from there.
struct TrialRows {
  const Runs& observed;
  SeriesPiece rows;
  std::int64_t cut = 0;
  std::vector<double> seasonal;  // by series: the error of the one-step seasonal naive forecast
};
// Fits a linear forecast and returns its mean absolute error in units of `seasonal`, over at most eight of the series.
// Returns infinity if either part has no window.
double trial_error(const TrialRows& trial, const ForecastShape& shape);

}  // namespace unroll
