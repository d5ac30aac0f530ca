// SPDX-License-Identifier: Apache-2.0
#include "core/nn/normal_quantile.h"

#include <cmath>
#include <span>

namespace unroll {

namespace {

// log x = e log 2 + 2 atanh((m - 1) / (m + 1)), m in [1/sqrt 2, sqrt 2). The error of 13 series terms is below 1e-20.
double plain_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 12; k >= 0; --k) sum = sum * square + 1.0 / (2 * k + 1);
  return exponent * 0.69314718055994531 + 2 * s * sum;
}

}  // namespace

double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                          6.680131188771972e+01,  -1.328068155288572e+01, 1};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00,
                          1};
  const auto polynomial = [](std::span<const double> k, double x) {
    double sum = 0;
    for (const double term : k) sum = sum * x + term;
    return sum;
  };
  constexpr double tail = 0.02425;
  if (p > 1 - tail) return -normal_quantile(1 - p);
  if (p < tail) {
    const double q = std::sqrt(-2 * plain_log(p));
    return polynomial(c, q) / polynomial(d, q);
  }
  const double q = p - 0.5, r = q * q;
  return q * polynomial(a, r) / polynomial(b, r);
}

}  // namespace unroll
