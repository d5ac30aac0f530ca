// SPDX-License-Identifier: Apache-2.0
#include "frontends/data/windows.h"

#include <algorithm>
#include <cmath>

#include "unroll/error.h"

namespace unroll {

ZScore ZScore::fit(std::span<const double> values) {
  ZScore z;
  if (values.empty()) return z;
  const double n = static_cast<double>(values.size());
  for (const double v : values) z.mean += v / n;
  double variance = 0;
  for (const double v : values) variance += (v - z.mean) * (v - z.mean) / n;
  if (variance > 0) z.deviation = std::sqrt(variance);
  return z;
}

std::vector<Series> series_of(std::span<const NamedColumn> columns, const std::string& file) {
  std::size_t begin = 0;
  for (const NamedColumn& c : columns) {
    const auto first = std::find_if(c.values.begin(), c.values.end(), [](double v) { return !std::isnan(v); });
    if (first == c.values.end()) throw Error(ErrorKind::input_file, file, c.name + " holds no number");
    begin = std::max(begin, static_cast<std::size_t>(first - c.values.begin()));
  }
  std::vector<Series> all;
  for (const NamedColumn& c : columns) {
    Series& s = all.emplace_back();
    double last = 0;
    for (std::size_t t = 0; t < c.values.size(); ++t) {
      const bool observed = !std::isnan(c.values[t]);
      if (observed) last = c.values[t];
      if (t < begin) continue;
      s.level.push_back(last);
      s.observed.push_back(observed);
    }
  }
  return all;
}

std::vector<double> differences(std::span<const double> level) {
  std::vector<double> d(level.size(), 0.0);
  for (std::size_t t = 1; t < level.size(); ++t) d[t] = level[t] - level[t - 1];
  return d;
}

std::vector<std::int64_t> targets_between(std::span<const Series> series, std::int64_t begin, std::int64_t end,
                                          std::int64_t window, std::int64_t horizon, std::int64_t first) {
  std::vector<std::int64_t> targets;
  for (std::int64_t t = std::max(begin, first + window); t + horizon <= end; ++t) {
    const bool observed = std::any_of(series.begin(), series.end(), [&](const Series& s) {
      const auto from = s.observed.begin() + t;
      return std::find(from, from + horizon, true) != from + horizon;
    });
    if (observed) targets.push_back(t);
  }
  return targets;
}

namespace {

// Solves A x = b for a symmetric positive definite A [n, n] in place (Cholesky); x is left in b.
void solve(std::vector<double>& a, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
}

}  // namespace

Autoregression Autoregression::fit(std::span<const double> values, std::span<const std::int64_t> targets,
                                   std::int64_t order) {
  const auto n = static_cast<std::size_t>(order) + 1;
  std::vector<double> a(n * n, 0.0), b(n, 0.0), row(n);
  for (const std::int64_t t : targets) {
    row[0] = 1;
    for (std::int64_t k = 0; k < order; ++k)
      row[static_cast<std::size_t>(k) + 1] = values[static_cast<std::size_t>(t - 1 - k)];
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i * n + j] += row[i] * row[j];
      b[i] += row[i] * values[static_cast<std::size_t>(t)];
    }
  }
  // A ridge of 1e-9 of the largest diagonal element: the normal equations stay positive definite when values repeat.
  double largest = 1e-300;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, a[i * n + i]);
  for (std::size_t i = 0; i < n; ++i) a[i * n + i] += 1e-9 * largest;
  solve(a, b);
  return {b[0], {b.begin() + 1, b.end()}};
}

std::vector<double> Autoregression::predict(std::span<const double> values, std::int64_t t, std::int64_t horizon) const {
  const std::size_t order = weight.size(), steps = static_cast<std::size_t>(horizon);
  const auto before = values.begin() + t - static_cast<std::ptrdiff_t>(order);
  std::vector<double> all(before, before + static_cast<std::ptrdiff_t>(order));
  for (std::size_t h = 0; h < steps; ++h) {
    double sum = intercept;
    for (std::size_t k = 0; k < order; ++k) sum += weight[k] * all[all.size() - 1 - k];
    all.push_back(sum);
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(order), all.end()};
}

}  // namespace unroll
