// SPDX-License-Identifier: Apache-2.0
// Forecasts of known values as rows of a CSV file, and the levels of their intervals.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontends/cli/predict/row_writer.h"
#include "unroll/tasks/backtest.h"

namespace unroll::cli {

// Levels of intervals between 0 and 1, from percentages. Throws Error(usage).
std::vector<double> shares_of(std::span<const std::string> levels);
// Says for which levels the validation set has too few forecasts.
void print_interval_notes(const ForecastIntervals& intervals, std::span<const std::string> levels,
                          bool has_distribution);

// A CSV file with a row for each value of each forecast.
class ForecastFile {
 public:
  struct Columns {
    std::vector<std::string> first = {};  // before those of a forecast
    std::vector<std::string> levels = {}, baselines = {};
  };
  ForecastFile(const std::string& path, Columns columns);  // an empty path: no file
  void add(const PastForecast& forecast, std::vector<std::string> first = {});
  void finish();

 private:
  std::optional<OutputFile> file_;
};

}  // namespace unroll::cli
