// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace unroll::testing {

namespace {

constexpr double k_ulps = 4;
constexpr double k_contraction = 4;
constexpr double k_norm = 4, k_norm_peak = 16;
// A result below this size is the rest of a cancellation of numbers of order one, like 1 - y^2 in the gradient of tanh,
// where 4 ulp of y become 8 s in absolute terms: 0.1 of the 80 s that the norm rule gives at its default depth.
constexpr double k_canceled = 0.1;
constexpr double k_zeros = 0.9, k_saturated = 0.999;

// Binary digits, and the least exponent of a normal number as frexp counts.
struct Format {
  DType dtype;
  int digits, lowest;
};
constexpr Format k_formats[] = {{DType::f64, 53, -1021}, {DType::f32, 24, -125}, {DType::bf16, 8, -125},
                                {DType::f16, 11, -13}};
const Format& format_of(DType dtype) {
  return *std::find_if(std::begin(k_formats), std::end(k_formats), [&](const Format& f) { return f.dtype == dtype; });
}
double roundoff(DType dtype) { return std::ldexp(1.0, -format_of(arithmetic_dtype(dtype)).digits); }
double smallest_normal(DType dtype) { return std::ldexp(0.5, format_of(arithmetic_dtype(dtype)).lowest); }
double levels(int depth) { return std::ceil(std::log2(std::max(depth, 2))); }

// Distance of neighboring numbers of `dtype` around x.
double ulp(DType dtype, double x) {
  const Format& format = format_of(dtype);
  int exponent = format.lowest;
  if (x != 0 && std::isfinite(x)) std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent, format.lowest) - format.digits);
}

// Same infinities, both NaN, or equal.
bool same_number(double a, double b) { return a == b || (a != a && b != b); }

// What `wanted` is in the dtype of the verified run: beyond its range that is infinity.
double seen_as(DType dtype, double wanted) {
  return dtype == DType::f32 ? static_cast<double>(static_cast<float>(wanted)) : wanted;
}

void note(Comparison& c, double error, double allowed, std::int64_t i, double got, double wanted) {
  const double ratio = error == 0 ? 0 : allowed > 0 ? error / allowed : std::numeric_limits<double>::infinity();
  if (ratio == ratio && ratio <= c.ratio && !c.worst.empty()) return;
  c.ratio = ratio == ratio ? ratio : std::numeric_limits<double>::infinity();
  char text[160];
  std::snprintf(text, sizeof text, "element %lld: got %.9g, wanted %.9g, error %.3g of %.3g allowed",
                static_cast<long long>(i), got, wanted, error, allowed);
  c.worst = text;
}

double norm2(const Tensor& t) {
  double sum = 0;
  for (std::int64_t i = 0; i < t.elements(); ++i) sum += t.at(i) * t.at(i);
  return std::sqrt(sum);
}

Comparison compare_norm(const Tensor& got, const Tensor& wanted, int depth, bool backward) {
  const double tolerance = k_norm * (backward ? 2 : 1) * levels(depth) * roundoff(got.dtype());
  const double n = static_cast<double>(wanted.elements());
  double peak = k_canceled, error2 = 0;
  Comparison c;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) peak = std::max(peak, std::abs(wanted.at(i)));
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    if (same_number(got.at(i), seen_as(got.dtype(), wanted.at(i)))) continue;
    const double error = std::abs(got.at(i) - wanted.at(i));
    error2 += error * error;
    note(c, error, k_norm_peak * tolerance * peak, i, got.at(i), wanted.at(i));
  }
  const double allowed = tolerance * std::max(norm2(wanted), k_canceled * std::sqrt(n));
  if (error2 > 0 && std::sqrt(error2) / allowed > c.ratio) {
    c.ratio = std::sqrt(error2) / allowed;
    c.worst = "L2 error " + std::to_string(c.ratio) + " of the allowed; " + c.worst;
  }
  return c;
}

}  // namespace

Comparison compare(const Tensor& got, const Tensor& wanted, const Tensor* magnitude, Agreement agreement,
                   bool backward, bool flushes) {
  const DType dtype = got.dtype();
  if (got.shape() != wanted.shape()) return {std::numeric_limits<double>::infinity(), "shapes differ"};
  const bool floats = is_float(arithmetic_dtype(dtype));
  if (floats && agreement.rule == Rule::norm) return compare_norm(got, wanted, agreement.depth, backward);
  const double u = floats ? roundoff(dtype) : 0;
  const double flushed = flushes && floats ? agreement.depth * smallest_normal(dtype) : 0;
  Comparison c;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    const double a = got.at(i), b = wanted.at(i);
    if (same_number(a, seen_as(dtype, b))) continue;
    double allowed = 0;
    if (floats && agreement.rule == Rule::pointwise)
      allowed = k_ulps * agreement.depth * ulp(arithmetic_dtype(dtype), b) + flushed;
    if (floats && agreement.rule == Rule::contraction)
      allowed =
          k_contraction * (u * levels(agreement.depth) + 2 * u) * std::abs(magnitude ? magnitude->at(i) : b) + flushed;
    if (allowed > 0 && is_half(dtype)) allowed += ulp(dtype, b);
    note(c, std::abs(a - b), allowed, i, a, b);
  }
  return c;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}

bool same_bits(const TensorMap& a, const TensorMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_bits(x.second, y.second);
  });
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) throw std::invalid_argument(a.type().text() + " beside " + b.type().text());
  double largest = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) largest = std::max(largest, std::abs(a.at(i) - b.at(i)));
  return largest;
}

std::string mistrust(const Tensor& result) {
  const std::int64_t n = result.elements();
  if (n < 4) return {};
  std::int64_t zeros = 0, same = 0, saturated = 0, inside = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = result.at(i);
    zeros += x == 0;
    same += same_number(x, result.at(0));
    saturated += std::abs(x) > k_saturated;
    inside += std::abs(x) <= 1;
  }
  if (same == n) return "every number is " + std::to_string(result.at(0));
  if (is_float(result.dtype()) && static_cast<double>(zeros) > k_zeros * static_cast<double>(n))
    return "nearly all numbers are 0";
  if (is_float(result.dtype()) && inside == n && 2 * saturated > n)
    return "more than half of the numbers are at -1 or 1";
  return {};
}

}  // namespace unroll::testing
