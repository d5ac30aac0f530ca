// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/form/cumulative.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace unroll {

namespace {

// The continued fraction of the incomplete beta function (Abramowitz & Stegun 1964, 26.5.8), by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr int k_most_terms = 10'000;
  constexpr double k_precision = 1e-14, k_least = 1e-300;
  const auto above_zero = [](double v) { return std::fabs(v) < k_least ? k_least : v; };
  double c = 1, d = 1 / above_zero(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m <= k_most_terms; ++m) {
    double change = 1;
    for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 / above_zero(1 + term * d);
      c = above_zero(1 + term / c);
      change = d * c;
      result *= change;
    }
    if (std::fabs(change - 1) < k_precision) break;
  }
  return result;
}

// The regularized incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) +
                                b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double normal_cumulative(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

double student_cumulative(double x, double nu) {
  const double tail = incomplete_beta(nu / 2, 0.5, nu / (nu + x * x)) / 2;
  return x > 0 ? 1 - tail : tail;
}

double negative_binomial_cumulative(double k, double successes, double p) {
  return 1 - incomplete_beta(k + 1, successes, p);
}

// The sum is at most x if a Poisson process has as many events before x: two Poisson numbers are compared.
double compound_exponential_cumulative(double x, double number) {
  if (x < 0) return 0;
  const auto probability = [](double k, double mean) {
    return mean == 0 ? (k == 0 ? 1.0 : 0.0) : std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
  };
  constexpr double k_reach = 9, k_more = 30;  // deviations, and events for small means
  const auto first = [](double mean) { return std::floor(std::max(mean - k_reach * std::sqrt(mean) - k_more, 0.0)); };
  const auto last = [](double mean) { return std::ceil(mean + k_reach * std::sqrt(mean) + k_more); };
  double sum = 0, below = 0;  // of events before x: the probability of fewer than n
  double k = first(x);
  for (double n = first(number); n <= last(number); ++n) {
    for (; k < n && k <= last(x); ++k) below += probability(k, x);
    sum += probability(n, number) * (n > last(x) ? 0 : std::max(1 - below, 0.0));
  }
  return std::min(sum, 1.0);
}

// By the Illinois method (Dowell & Jarratt 1971): the secant of an interval, with half the value of an end that stays.
double inverse_of(const std::function<double(double)>& cumulative, double share, double low, double high) {
  constexpr int k_most_steps = 200;
  constexpr double k_precision = 1e-9;
  double below = cumulative(low) - share, above = cumulative(high) - share;
  if (below >= 0) return low;
  if (above <= 0) return high;
  int side = 0;  // of the last step
  for (int step = 0; step < k_most_steps; ++step) {
    if (high - low <= k_precision * (std::fabs(low) + std::fabs(high)) + std::numeric_limits<double>::min()) break;
    double x = high - above * (high - low) / (above - below);
    if (!(x > low && x < high)) x = low + (high - low) / 2;
    const double error = cumulative(x) - share;
    if (error == 0) return x;
    if (error < 0) {
      low = x;
      below = error;
      if (side < 0) above /= 2;
      side = -1;
    } else {
      high = x;
      above = error;
      if (side > 0) below /= 2;
      side = 1;
    }
  }
  return low + (high - low) / 2;
}

}  // namespace unroll
