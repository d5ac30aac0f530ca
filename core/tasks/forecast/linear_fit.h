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
  std::int64_t least = 1;  // values of a window that its segment must have; a window that begins earlier is filled
  // First row that a window ending before t reads.
  std::int64_t first_before(std::int64_t t) const { return t - window - form.depth(); }
  // Positions of windows in a segment that begins at row `begin`.
  TargetOptions targets(std::int64_t begin, std::int64_t stride = 1) const {
    return {least, horizon, begin + form.depth(), stride};
  }
};

// Fits the linear part of a model to the training positions `windows`. A series without a complete target starts at
// zero. With many segments the error of a window counts in units of `seasonal`, which is as seasonal_errors.
LinearStart fit_linear(const SeriesWindows& windows, const ForecastShape& shape,
                       std::span<const std::vector<ZScore>> scales);

// Rows of a segment, in memory: fitted before `cut`, scored from there.
struct TrialPart {
  SeriesPiece rows;
  std::int64_t cut = 0;
  std::vector<double> seasonal;  // by series: the error of the one-step seasonal naive forecast
};
struct TrialRows {
  const Runs& observed;
  std::vector<TrialPart> parts;
};
// Fits a linear forecast and returns its mean absolute error in units of `seasonal`, over at most eight of the series.
// Returns infinity if either side of the cuts has no window.
double trial_error(const TrialRows& trial, const ForecastShape& shape);

}  // namespace unroll
