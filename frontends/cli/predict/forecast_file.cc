// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/forecast_file.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>

#include "core/support/text/counted.h"
#include "frontends/cli/terminal/activity.h"
#include "unroll/support/error.h"

namespace unroll::cli {

std::vector<double> shares_of(std::span<const std::string> levels) {
  std::vector<double> shares;
  for (const std::string& text : levels) {
    double percent = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
    if (error != std::errc() || stop != text.data() + text.size() || !(percent > 0 && percent < 100))
      throw Error(ErrorKind::usage, "--level", fmt::format("must be percentages between 0 and 100; got '{}'", text),
                  "Write for example --level 80,95");
    shares.push_back(percent / 100);
  }
  return shares;
}

void print_interval_notes(const ForecastIntervals& intervals, std::span<const std::string> levels,
                          bool has_distribution) {
  for (const std::string& level : levels) {
    const std::int64_t least = ForecastIntervals::least_errors(shares_of({&level, 1})[0]);
    if (intervals.n_errors() >= least) continue;
    print_line(fmt::format("note: {} at {} %{}: the validation set has {}, and {} are needed",
                           has_distribution ? "the interval" : "no interval", level,
                           has_distribution ? " is not calibrated" : "", counted(intervals.n_errors(), "window"),
                           least));
  }
}

ForecastFile::ForecastFile(const std::string& path, Columns columns) {
  if (path.empty()) return;
  file_.emplace(path);
  std::vector<std::string> all = std::move(columns.first);
  all.insert(all.end(), {"series", "origin", "at", "ahead", "value", "forecast"});
  for (const std::string& level : columns.levels)
    all.insert(all.end(), {"forecast-lo-" + level, "forecast-hi-" + level});
  all.insert(all.end(), columns.baselines.begin(), columns.baselines.end());
  RowWriter(RowFormat::csv, *file_).row(all);
}

void ForecastFile::add(const PastForecast& f, std::vector<std::string> first) {
  if (!file_) return;
  first.insert(first.end(), {f.series, f.origin, f.at, fmt::format("{}", f.ahead), value_cell(f.value),
                             value_cell(f.forecast)});
  for (const std::vector<double>& values : {std::cref(f.bounds), std::cref(f.baselines)})
    for (const double value : values) first.push_back(value_cell(value));
  RowWriter(RowFormat::csv, *file_).row(first);
}

void ForecastFile::finish() {
  if (file_) file_->finish();
}

}  // namespace unroll::cli
