// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/form/distribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "core/nn/normal_quantile.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/forecast/form/cumulative.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

enum class Support : std::uint8_t { all, amounts, counts };

struct DistributionRow {
  std::string_view family;
  std::int64_t n_parameters;
  Support support;
  std::vector<double> (*start)(double deviation);
  std::vector<Value> (*parameters)(std::span<const Value> raw);
  Value (*loss)(const DistributionValues&);
  double (*quantile)(double share, double forecast, double unit, std::span<const double> parameters);
};

namespace {

constexpr double k_least_deviation = 1e-3;  // of a unit
constexpr double k_most_error = 30;         // units; windows of equal values have none
constexpr double k_half_log_two_pi = 0.91893853320467274;

double inverse_softplus(double y) { return y > 30 ? y : std::log(std::expm1(std::max(y, 1e-6))); }
Value positive(Value raw) { return softplus(raw) + k_least_deviation; }
Value bounded(Value error) { return clip(error, -k_most_error, k_most_error); }

// log of the gamma function, by Stirling's series behind x (x + 1) (x + 2), to 1e-6 for x > 0.
Value log_gamma(Value x) {
  const Value y = x + 3.0, inverse = 1.0 / y;
  const Value series = inverse * (1.0 / 12 - inverse * inverse * (1.0 / 360));
  return (y - 0.5) * log(y) - y + k_half_log_two_pi + series - log(x * (x + 1.0) * (x + 2.0));
}

// Parameter: the deviation.
namespace normal {

std::vector<double> start(double deviation) { return {inverse_softplus(deviation)}; }
std::vector<Value> parameters(std::span<const Value> raw) { return {positive(raw[0])}; }
Value loss(const DistributionValues& v) {
  const Value z = bounded(v.error) / v.parameters[0];
  return z * z * 0.5 + log(v.parameters[0]) + k_half_log_two_pi;
}
double quantile(double share, double forecast, double unit, std::span<const double> p) {
  return forecast + unit * p[0] * normal_quantile(share);
}

}  // namespace normal

// Parameters: the scale, and degrees of freedom above 2.
namespace student {

constexpr double k_first_freedom = 6;

std::vector<double> start(double deviation) {
  const double scale = std::sqrt((k_first_freedom - 2) / k_first_freedom);  // of the deviation
  return {inverse_softplus(scale * deviation), inverse_softplus(k_first_freedom - 2)};
}
std::vector<Value> parameters(std::span<const Value> raw) { return {positive(raw[0]), positive(raw[1]) + 2.0}; }
Value loss(const DistributionValues& v) {
  const Value scale = v.parameters[0], nu = v.parameters[1];
  const Value z = clip(v.error, -1e6, 1e6) / scale;  // its square is below the largest f32
  return log_gamma(nu * 0.5) - log_gamma((nu + 1.0) * 0.5) + log(nu * std::numbers::pi) * 0.5 + log(scale) +
         (nu + 1.0) * 0.5 * log1p(z * z / nu);
}
double quantile(double share, double forecast, double unit, std::span<const double> p) {
  constexpr double k_far = 1e6;
  const auto cumulative = [&](double x) { return student_cumulative(x, p[1]); };
  const double upper = std::max(share, 1 - share);
  double far = 2;
  while (far < k_far && cumulative(far) < upper) far *= 4;
  return forecast + std::copysign(unit * p[0] * inverse_of(cumulative, upper, 0, far), share - 0.5);
}

}  // namespace student

// Three normal distributions around the forecast, which is their common mean.
namespace mixture {

constexpr std::size_t K = 3;  // parameters: K weights, K offsets, K deviations

std::vector<double> start(double deviation) {
  std::vector<double> raw(2 * K);
  for (const double width : {0.5, 1.0, 1.5}) raw.push_back(inverse_softplus(width * deviation));
  return raw;
}
std::vector<Value> parameters(std::span<const Value> raw) {
  Value most = raw[0], sum, mean;
  for (std::size_t k = 1; k < K; ++k) most = maximum(most, raw[k]);
  std::vector<Value> all;
  for (std::size_t k = 0; k < K; ++k) {
    const Value weight = all.emplace_back(exp(raw[k] - most));
    sum = k == 0 ? weight : sum + weight;
  }
  for (std::size_t k = 0; k < K; ++k) {
    all[k] = all[k] / sum;
    mean = k == 0 ? all[k] * raw[K + k] : mean + all[k] * raw[K + k];
  }
  for (std::size_t k = 0; k < K; ++k) all.push_back(raw[K + k] - mean);
  for (std::size_t k = 0; k < K; ++k) all.push_back(positive(raw[2 * K + k]));
  return all;
}
Value loss(const DistributionValues& v) {
  std::array<Value, K> terms;
  for (std::size_t k = 0; k < K; ++k) {
    const Value z = (bounded(v.error) - v.parameters[K + k]) / v.parameters[2 * K + k];
    terms[k] = log(v.parameters[k] + 1e-6) - z * z * 0.5 - log(v.parameters[2 * K + k]);
  }
  const Value most = maximum(maximum(terms[0], terms[1]), terms[2]);
  return k_half_log_two_pi - most - log(exp(terms[0] - most) + exp(terms[1] - most) + exp(terms[2] - most));
}
double quantile(double share, double forecast, double unit, std::span<const double> p) {
  constexpr double k_far = 12;  // deviations
  double low = 0, high = 0;
  for (std::size_t k = 0; k < K; ++k) {
    low = std::min(low, p[K + k] - k_far * p[2 * K + k]);
    high = std::max(high, p[K + k] + k_far * p[2 * K + k]);
  }
  const auto cumulative = [&](double x) {
    double sum = 0;
    for (std::size_t k = 0; k < K; ++k) sum += p[k] * normal_cumulative((x - p[K + k]) / p[2 * K + k]);
    return sum;
  };
  return forecast + unit * inverse_of(cumulative, share, low, high);
}

}  // namespace mixture

// The forecast is the median. Parameters are the offsets of the other quantiles; none can cross the next one.
namespace quantiles {

constexpr std::array k_shares{0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975};
constexpr std::size_t k_median = k_shares.size() / 2;

// The parameters are in the order of the shares, without the median. Each step leads away from the median.
std::vector<double> start(double deviation) {
  std::vector<double> raw;
  for (std::size_t q = 0; q < k_shares.size(); ++q) {
    if (q == k_median) continue;
    const std::size_t nearer = q < k_median ? q + 1 : q - 1;
    raw.push_back(
        inverse_softplus(deviation * std::fabs(normal_quantile(k_shares[q]) - normal_quantile(k_shares[nearer]))));
  }
  return raw;
}
std::vector<Value> parameters(std::span<const Value> raw) {
  std::vector<Value> all(raw.size());
  for (std::size_t k = 0; k < k_median; ++k) {
    const std::size_t below = k_median - 1 - k, above = k_median + k;
    all[below] = k == 0 ? -softplus(raw[below]) : all[below + 1] - softplus(raw[below]);
    all[above] = k == 0 ? softplus(raw[above]) : all[above - 1] + softplus(raw[above]);
  }
  return all;
}
Value loss(const DistributionValues& v) {
  Value sum;
  for (std::size_t q = 0; q < k_shares.size(); ++q) {
    Value error = v.error;
    if (q != k_median) error = error - v.parameters[q < k_median ? q : q - 1];
    const Value one = maximum(error * k_shares[q], error * (k_shares[q] - 1));
    sum = q == 0 ? one : sum + one;
  }
  return sum * (2.0 / k_shares.size());
}
// Between two shares, and beyond the outer ones, the distribution is a normal one.
double quantile(double share, double forecast, double unit, std::span<const double> p) {
  const auto offset = [&](std::size_t q) { return q == k_median ? 0 : p[q < k_median ? q : q - 1]; };
  std::size_t q = 1;
  while (q + 1 < k_shares.size() && k_shares[q] < share) ++q;
  const double from = normal_quantile(k_shares[q - 1]), to = normal_quantile(k_shares[q]);
  const double part = (normal_quantile(share) - from) / (to - from);
  return forecast + unit * (offset(q - 1) + part * (offset(q) - offset(q - 1)));
}

}  // namespace quantiles

// Parameter: the dispersion a; the variance at a mean m is m + a m^2 (Salinas et al. 2020, section 3.1).
namespace negative_binomial {

constexpr double k_least_mean = 1e-3;

std::vector<double> start(double) { return {inverse_softplus(0.2)}; }
std::vector<Value> parameters(std::span<const Value> raw) { return {positive(raw[0])}; }
Value loss(const DistributionValues& v) {
  const Value r = 1.0 / v.parameters[0], mean = maximum(v.mean, scalar_like(v.mean, k_least_mean)), k = v.target;
  return log_gamma(r) + log_gamma(k + 1.0) - log_gamma(k + r) + r * log1p(mean / r) + k * log((r + mean) / mean);
}
double quantile(double share, double forecast, double, std::span<const double> p) {
  const double r = 1 / p[0], mean = std::max(forecast, k_least_mean);
  const auto reaches = [&](double k) { return negative_binomial_cumulative(k, r, mean / (r + mean)) >= share; };
  constexpr double k_far = 1e15;
  double below = -1, at = 0;  // not reached at `below`
  while (at < k_far && !reaches(at)) {
    below = at;
    at = 2 * at + 1;
  }
  while (at - below > 1) {
    const double middle = std::floor((below + at) / 2);
    (reaches(middle) ? at : below) = middle;
  }
  return at;
}

}  // namespace negative_binomial

// A sum of exponentially distributed amounts, as many as a Poisson distribution says, so that zeros have a probability
// of their own: Tweedie's family with the power 1.5 (Jorgensen 1987). Parameter: the dispersion d; the variance at a
// mean m is d m^1.5. The number has the mean 2 sqrt(m) / d, an amount sqrt(m) d / 2.
namespace tweedie {

constexpr double k_least_mean = 1e-3, k_zero = 1e-5;  // of a unit; a difference of f32 levels may miss 0

// Coefficients of the Bessel function I_1 (Abramowitz & Stegun 1964, 9.8.3 and 9.8.4), to 3e-7.
constexpr double k_border = 3.75;
constexpr std::array k_near{0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411};
constexpr std::array k_far{0.39894228,  -0.03988024, -0.00362018, 0.00163801, -0.01031555,
                           0.02282967, -0.02895312, 0.01787654,  -0.00420059};

template <std::size_t n>
Value polynomial(Value x, const std::array<double, n>& coefficients) {
  Value sum = x * coefficients[n - 1] + coefficients[n - 2];
  for (std::size_t k = n - 2; k-- > 0;) sum = sum * x + coefficients[k];
  return sum;
}

std::vector<double> start(double deviation) { return {inverse_softplus(deviation * deviation)}; }
std::vector<Value> parameters(std::span<const Value> raw) { return {positive(raw[0])}; }
// With z = 4 sqrt(y) / d, the density of y > 0 is e^(-2 (sqrt m - sqrt y)^2 / (d sqrt m)) 2 e^-z I_1(z) / (d sqrt y).
Value loss(const DistributionValues& v) {
  const Value d = v.parameters[0], none = v.target < scalar_like(v.target, k_zero);
  const Value m = sqrt(maximum(v.mean, scalar_like(v.mean, k_least_mean)));
  const Value y = sqrt(select(none, scalar_like(v.target, 1), v.target)), z = y * 4.0 / d;
  const Value is_near = z < scalar_like(z, k_border), border = scalar_like(z, k_border);
  const Value in_near = minimum(z, border) * (1 / k_border), in_far = k_border / maximum(z, border);
  const Value near = log(d * d * 0.125) + z - log(polynomial(in_near * in_near, k_near));
  const Value far = log(d * y * 0.5) + log(z) * 0.5 - log(polynomial(in_far, k_far));
  const Value distance = m - y;
  return select(none, m * 2.0 / d, distance * distance * 2.0 / (d * m) + select(is_near, near, far));
}
double quantile(double share, double forecast, double unit, std::span<const double> p) {
  const double m = std::sqrt(std::max(forecast / unit, k_least_mean)), number = 2 * m / p[0], amount = m * p[0] / 2;
  const auto cumulative = [&](double y) { return compound_exponential_cumulative(y / amount, number); };
  if (cumulative(0) >= share) return 0;
  double far = m * m + amount;
  while (far < 1e9 && cumulative(far) < share) far *= 2;
  return unit * inverse_of(cumulative, share, 0, far);
}

}  // namespace tweedie

constexpr DistributionRow k_rows[] = {
    {"quantiles", 8, Support::all, quantiles::start, quantiles::parameters, quantiles::loss, quantiles::quantile},
    {"normal", 1, Support::all, normal::start, normal::parameters, normal::loss, normal::quantile},
    {"student_t", 2, Support::all, student::start, student::parameters, student::loss, student::quantile},
    {"normal_mixture", 9, Support::all, mixture::start, mixture::parameters, mixture::loss, mixture::quantile},
    {"negative_binomial", 1, Support::counts, negative_binomial::start, negative_binomial::parameters,
     negative_binomial::loss, negative_binomial::quantile},
    {"tweedie", 1, Support::amounts, tweedie::start, tweedie::parameters, tweedie::loss, tweedie::quantile},
};

}  // namespace

Distribution::Distribution(std::string_view family) {
  if (family == "none") return;
  const auto* const row = std::ranges::find(k_rows, family, &DistributionRow::family);
  if (row == std::end(k_rows))
    throw Error(ErrorKind::usage, "model.distribution", "there is no distribution " + in_quotes(family));
  row_ = row;
}

std::string_view Distribution::family() const { return empty() ? "none" : row_->family; }
std::int64_t Distribution::n_parameters() const { return empty() ? 0 : row_->n_parameters; }
bool Distribution::is_of_amounts() const { return !empty() && row_->support != Support::all; }
bool Distribution::is_of_counts() const { return !empty() && row_->support == Support::counts; }
std::vector<double> Distribution::start(double deviation) const { return row_->start(deviation); }
std::vector<Value> Distribution::parameters(std::span<const Value> raw) const { return row_->parameters(raw); }
Value Distribution::loss(const DistributionValues& values) const { return row_->loss(values); }

double Distribution::quantile(double share, double forecast, double unit, std::span<const double> p) const {
  return row_->quantile(share, forecast, unit, p);
}

namespace {
constexpr double k_slope = 5;  // of the argument of softplus
}

Value positive_amount(Value forecast, Value unit) {
  return softplus(forecast / unit * k_slope) * unit * (1 / k_slope);
}
double positive_amount(double forecast, double unit) {
  const double x = forecast / unit * k_slope;
  return (std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)))) * unit / k_slope;
}

}  // namespace unroll
