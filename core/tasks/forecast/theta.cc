// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/theta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace unroll {

namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Tests the autocorrelation at the period with a confidence of 90 %. Its variance is that of Bartlett (1946), if the
// autocorrelations at smaller lags are not zero.
bool shows_season(std::span<const double> y, std::int64_t period) {
  constexpr double k_quantile = 1.645;  // of the normal distribution at 95 %, for both signs
  if (period < 2 || std::ssize(y) < 2 * period) return false;
  const auto n = static_cast<double>(y.size()), mean = mean_of(y);
  std::vector<double> padded(period);  // zeros stand for the values before the first
  for (const double value : y) padded.push_back(value - mean);
  std::vector<double> r(period);  // of the lags `period`, `period` - 1, ..., 1
  double variance = 0;
  for (std::size_t t = period; t < padded.size(); ++t) {
    variance += padded[t] * padded[t];
    for (std::int64_t j = 0; j < period; ++j) r[j] += padded[t] * padded[t - period + j];
  }
  if (variance == 0) return false;
  for (double& value : r) value /= variance;
  const double smaller = std::inner_product(r.begin() + 1, r.end(), r.begin() + 1, 0.0);
  return std::fabs(r[0]) > k_quantile * std::sqrt((1 + 2 * smaller) / n);
}

// Classical decomposition (Hyndman & Athanasopoulos 2021, section 3.4): returns the mean of each place in the season,
// relative to a centered moving average. Place 0 is that of y[0]. Means are factors for `multiplicative`, else terms.
std::vector<double> season_of(std::span<const double> y, std::int64_t period, bool multiplicative) {
  const std::int64_t half = period / 2;
  const double end_weight = period % 2 == 0 ? 0.5 : 1.0;  // an even period takes half of the values at both ends
  std::vector<double> sums(period), counts(period);
  double inner = std::accumulate(y.begin(), y.begin() + 2 * half, 0.0) - y[0];
  for (std::int64_t t = half; t < std::ssize(y) - half; ++t) {
    const double first = y[t - half], last = y[t + half];
    const double trend = (inner + end_weight * (first + last)) / static_cast<double>(period);
    sums[t % period] += multiplicative ? y[t] / trend : y[t] - trend;
    ++counts[t % period];
    inner += last - y[t - half + 1];
  }
  for (std::int64_t k = 0; k < period; ++k) sums[k] /= counts[k];
  const double mean = mean_of(sums);
  for (double& value : sums) value = multiplicative ? value / mean : value - mean;
  return sums;
}

// Half the slope of the least-squares line of y over time: the drift of the Theta method.
double drift_of(std::span<const double> y) {
  const double center = static_cast<double>(y.size() - 1) / 2, mean = mean_of(y);
  double product = 0, square = 0;
  for (std::size_t t = 0; t < y.size(); ++t) {
    const double from = static_cast<double>(t) - center;
    product += from * (y[t] - mean);
    square += from * from;
  }
  return square > 0 ? product / square / 2 : 0;
}

constexpr std::size_t k_lanes = 4;  // smoothing parameters of one pass, for vector instructions

// One pass of e = y[t] - next, next += alpha e + drift, for each alpha. Another first forecast than y[0], by d, adds
// d (1 - alpha)^t to each forecast, so that the d of the least squares has a closed form.
struct Smoothing {
  std::array<double, k_lanes> square, next;  // the sum of e^2, and the forecast of the value after the last one

  Smoothing(std::span<const double> y, double drift, const std::array<double, k_lanes>& alpha) {
    std::array<double, k_lanes> decay, ee{}, ec{}, cc{};
    next.fill(y[0]);
    decay.fill(1);
    for (const double value : y)
      for (std::size_t j = 0; j < k_lanes; ++j) {
        const double e = value - next[j], c = decay[j];
        ee[j] += e * e;
        ec[j] += e * c;
        cc[j] += c * c;
        next[j] = (1 - alpha[j]) * next[j] + (alpha[j] * value + drift);
        decay[j] = (1 - alpha[j]) * c;
      }
    for (std::size_t j = 0; j < k_lanes; ++j) {
      const double d = ec[j] / cc[j];
      square[j] = ee[j] - d * ec[j];
      next[j] += d * decay[j];
    }
  }
};

// Returns the next value of the smoothing with the least squared errors. Each pass divides the interval of alpha, at
// first that of Fiorucci et al. (2016), in five parts and keeps the two around the best point; after the last pass
// alpha is known to 0.0003.
double smoothed(std::span<const double> y, double drift) {
  constexpr int k_passes = 9;
  double low = 0.1, high = 0.99, next = 0;
  for (int pass = 0; pass < k_passes; ++pass) {
    const double part = (high - low) / (k_lanes + 1);
    std::array<double, k_lanes> alpha;
    for (std::size_t j = 0; j < k_lanes; ++j) alpha[j] = low + static_cast<double>(j + 1) * part;
    const Smoothing found(y, drift, alpha);
    const auto best = std::ranges::min_element(found.square) - found.square.begin();
    next = found.next[best];
    low = alpha[best] - part;
    high = alpha[best] + part;
  }
  return next;
}

}  // namespace

std::int64_t theta_history(std::int64_t period) { return std::clamp<std::int64_t>(10 * period, 200, 2'000); }

// Hyndman & Billah (2003) show that the method is simple exponential smoothing with a drift of half the slope. Test and
// decomposition of the season are those of R's thetaf, with terms instead of factors for values that are not positive.
std::vector<double> theta_forecast(std::span<const double> values, std::int64_t period, std::int64_t steps) {
  constexpr double k_least_factor = 0.01;
  const std::span<const double> read = values.last(std::min<std::size_t>(values.size(), theta_history(period)));
  double unit = 0;  // keeps squares finite
  for (const double value : read) unit = std::max(unit, std::fabs(value));
  if (unit == 0) return std::vector<double>(steps);
  std::vector<double> y, season{0}, forecast;
  for (const double value : read) y.push_back(value / unit);
  bool multiplicative = false;
  if (shows_season(y, period)) {
    multiplicative = std::ranges::min(y) > 0;
    season = season_of(y, period, multiplicative);
    if (multiplicative && std::ranges::min(season) < k_least_factor) {
      multiplicative = false;
      season = season_of(y, period, multiplicative);
    }
  }
  const auto at = [&](std::size_t t) { return season[t % season.size()]; };
  for (std::size_t t = 0; t < y.size(); ++t) y[t] = multiplicative ? y[t] / at(t) : y[t] - at(t);
  const double drift = drift_of(y), next = smoothed(y, drift);
  for (std::int64_t h = 0; h < steps; ++h) {
    const double value = next + static_cast<double>(h) * drift, of_season = at(y.size() + h);
    forecast.push_back(unit * (multiplicative ? value * of_season : value + of_season));
  }
  return forecast;
}

}  // namespace unroll
