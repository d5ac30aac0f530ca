// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unroll {

// Equal values differ from their mean by rounding: n additions of at most an epsilon of it.
ZScore ZScoreFit::score() const {
  const double deviation = std::sqrt(variance_);
  const double rounding = n_ * std::numeric_limits<double>::epsilon() * std::fabs(mean_);
  return deviation > rounding ? ZScore{mean_, deviation} : ZScore{last_, 1};
}

namespace {

// Solves A X = B for a symmetric positive definite A [n, n], given by its lower triangle, in place (Cholesky); B
// [n, columns] becomes X.
void solve_in_place(std::vector<double>& a, std::vector<double>& b, std::size_t n) {
  const std::size_t columns = b.size() / n;
  const auto subtract = [&](std::size_t i, std::size_t k, double weight) {
    for (std::size_t c = 0; c < columns; ++c) b[i * columns + c] -= weight * b[k * columns + c];
  };
  const auto divide = [&](std::size_t i) {
    for (std::size_t c = 0; c < columns; ++c) b[i * columns + c] /= a[i * n + i];
  };
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(sum) : sum / a[j * n + j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) subtract(i, k, a[i * n + k]);
    divide(i);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) subtract(i, k, a[k * n + i]);
    divide(i);
  }
}

}  // namespace

LeastSquares::LeastSquares(std::int64_t inputs, std::int64_t targets)
    : n_(inputs + 1), targets_(targets), squares_(n_ * n_), row_(n_), solution_(n_ * targets_) {}

void LeastSquares::learn(std::span<const double> inputs, std::span<const double> targets, double weight) {
  row_[0] = 1;
  std::copy(inputs.begin(), inputs.end(), row_.begin() + 1);
  for (std::size_t i = 0; i < n_; ++i) {
    const double value = weight * row_[i];
    for (std::size_t j = 0; j <= i; ++j) squares_[i * n_ + j] += value * row_[j];
    for (std::size_t t = 0; t < targets_; ++t) solution_[i * targets_ + t] += value * targets[t];
  }
  weight_sum_ += weight;
}

double LeastSquares::largest_square() const {
  double largest = 0;
  for (std::size_t i = 0; i < n_; ++i) largest = std::max(largest, squares_[i * n_ + i]);
  return largest;
}

void LeastSquares::solve(double ridge) {
  for (std::size_t i = 0; i < n_; ++i) squares_[i * n_ + i] += ridge;
  solve_in_place(squares_, solution_, n_);
  squares_ = std::vector<double>();
}

void LeastSquares::predict(std::span<const double> inputs, std::span<double> targets) const {
  for (std::size_t t = 0; t < targets_; ++t) targets[t] = intercept(t);
  for (std::size_t k = 0; k + 1 < n_; ++k)
    for (std::size_t t = 0; t < targets_; ++t) targets[t] += weight(k, t) * inputs[k];
}

void Autoregression::learn(std::span<const double> before, double next) {
  std::reverse_copy(before.begin(), before.end(), before_.begin());
  fit_.learn(before_, {&next, 1});
}

// A ridge of 1e-9 of the largest diagonal element keeps the normal equations positive definite if values repeat.
void Autoregression::solve() { fit_.solve(1e-9 * std::max(fit_.largest_square(), 1e-300)); }

std::vector<double> Autoregression::predict(std::span<const double> before, std::int64_t horizon) const {
  std::vector<double> all(before.begin(), before.end()), newest(before.size());
  for (std::int64_t h = 0; h < horizon; ++h) {
    std::reverse_copy(all.end() - std::ssize(before), all.end(), newest.begin());
    fit_.predict(newest, {&all.emplace_back(), 1});
  }
  return {all.end() - static_cast<std::ptrdiff_t>(horizon), all.end()};
}

}  // namespace unroll
