// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/seasons.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/support/text/exact_text.h"

namespace unroll {

std::vector<Season> usual_seasons(DateStep step) {
  const auto named = [&](std::int64_t length, const char* name) {
    return Season{length, std::string(name) + ", at a row every " + step_text(step)};
  };
  std::vector<Season> seasons;
  if (step.months > 0) {
    if (step.months < 12 && 12 % step.months == 0) seasons.push_back(named(12 / step.months, "a year"));
    return seasons;
  }
  if (step.micros < k_day && steps_per_day(step) > 1) seasons.push_back(named(steps_per_day(step), "a day"));
  if (step.micros < 7 * k_day && steps_per_week(step) > 0) seasons.push_back(named(steps_per_week(step), "a week"));
  if (step.micros == 7 * k_day) seasons.push_back(named(52, "a year"));
  return seasons;
}

namespace {

constexpr std::int64_t k_correlated_rows = 20'000, k_longest_season = 1'000;
constexpr std::size_t k_correlated_series = 8;

// Returns the autocorrelation of the differences of a series at the lags 0 to `lags`.
std::vector<double> autocorrelation(const std::vector<double>& levels, std::int64_t lags) {
  std::vector<double> d;
  for (std::size_t t = 1; t < levels.size(); ++t) d.push_back(levels[t] - levels[t - 1]);
  double mean = 0;
  for (const double value : d) mean += value / static_cast<double>(d.size());
  for (double& value : d) value -= mean;
  std::vector<double> r(lags + 1);
  for (std::int64_t k = 0; k <= lags; ++k)
    for (std::size_t t = k; t < d.size(); ++t) r[k] += d[t] * d[t - k];
  const double variance = r[0];
  for (double& value : r) value = variance > 0 ? value / variance : 0;
  return r;
}

// Returns the mean autocorrelation of some of the series, evenly spread, in the last rows of each part.
std::vector<double> mean_autocorrelation(const SeriesRows& rows, std::span<const RowRange> parts, std::int64_t lags) {
  const std::size_t S = rows.n_series(), n = k_correlated_series / parts.size(), every = (S + n - 1) / n;
  SeriesPiece piece;
  std::vector<double> sums(lags + 1), levels;
  double count = 0;
  for (const RowRange& part : parts) {
    rows.read(std::max(part.end - k_correlated_rows, part.begin), part.end, piece);
    for (std::size_t s = 0; s < S; s += every) {
      levels.clear();
      for (std::int64_t t = piece.begin; t < piece.end; ++t) levels.push_back(piece.level(t, s));
      const std::vector<double> r = autocorrelation(levels, lags);
      for (std::size_t k = 0; k < r.size(); ++k) sums[k] += r[k];
      ++count;
    }
  }
  for (double& value : sums) value /= count;
  return sums;
}

}  // namespace

std::vector<Season> shown_seasons(const SeriesRows& rows, std::vector<RowRange> parts) {
  constexpr double k_clear = 0.25;   // least autocorrelation of a season
  constexpr double k_shorter = 0.5;  // of the highest peak; the peak of two seasons may be the highest
  std::ranges::stable_sort(parts, std::greater(), &RowRange::size);
  parts.resize(std::min(parts.size(), k_correlated_series));
  const std::int64_t n = parts.back().size(), lags = std::min(n / 3, k_longest_season);
  if (lags < 3) return {};
  const std::vector<double> r = mean_autocorrelation(rows, parts, lags);
  // Four standard errors of white noise (Box & Jenkins 1970, section 2.1.6).
  const double least = std::max(k_clear, 4 / std::sqrt(static_cast<double>(std::min(n, k_correlated_rows))));
  std::int64_t highest = 0;
  const auto is_peak = [&](std::int64_t k) { return r[k] >= k_clear && r[k] > r[k - 1] && r[k] >= r[k + 1]; };
  for (std::int64_t k = 2; k < lags; ++k)
    if (is_peak(k) && r[k] >= least && (highest == 0 || r[k] > r[highest])) highest = k;
  std::vector<Season> seasons;
  for (std::int64_t k = 2; k <= highest && highest > 0; ++k)
    if (is_peak(k) && (k == highest || (seasons.empty() && r[k] >= k_shorter * r[highest])))
      seasons.push_back({k, "autocorrelation " + short_text(r[k], 3)});
  return seasons;
}

}  // namespace unroll
