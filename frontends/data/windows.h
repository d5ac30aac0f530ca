// SPDX-License-Identifier: Apache-2.0
// Series with gaps prepared for forecasting: gaps, differences, z-score, sliding windows, and a linear
// autoregression to compare with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unroll {

// z = (value - mean) / deviation
struct ZScore {
  double mean = 0, deviation = 1;
  static ZScore fit(std::span<const double> values);  // deviation 1 when the values do not vary
  double apply(double value) const { return (value - mean) / deviation; }
};

struct Series {
  std::vector<double> level;   // gaps filled
  std::vector<bool> observed;  // false where there was a gap
  std::int64_t size() const { return static_cast<std::int64_t>(level.size()); }
};
struct NamedColumn {
  std::string name;  // for messages
  std::vector<double> values;
};
// Columns of one length side by side; NaN marks a gap. A gap is read as the last value before it, so that nothing comes
// from the future; rows before each column has had a value are dropped. Throws Error(input_file) when one has no value
// at all.
std::vector<Series> series_of(std::span<const NamedColumn> columns, const std::string& file);

// level[t] - level[t-1]; 0 at t = 0.
std::vector<double> differences(std::span<const double> level);

// Positions t to predict [t, t + horizon) at, within [begin, end), from the `window` values before t: at least one of
// them observed in one of the series, and t - window >= first.
std::vector<std::int64_t> targets_between(std::span<const Series> series, std::int64_t begin, std::int64_t end,
                                          std::int64_t window, std::int64_t horizon, std::int64_t first);

// value[t] = intercept + sum over k of weight[k] * value[t - 1 - k], by least squares over the targets.
struct Autoregression {
  double intercept = 0;
  std::vector<double> weight;
  static Autoregression fit(std::span<const double> values, std::span<const std::int64_t> targets, std::int64_t order);
  // The `horizon` values from t on; from the second one on of its own predictions.
  std::vector<double> predict(std::span<const double> values, std::int64_t t, std::int64_t horizon) const;
};

}  // namespace unroll
