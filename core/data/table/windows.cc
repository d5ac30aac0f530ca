// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/windows.h"

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

// Solves A x = b for a symmetric positive definite A [n, n] in place (Cholesky); b becomes x.
void solve_in_place(std::vector<double>& a, std::vector<double>& b) {
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

Autoregression::Autoregression(std::int64_t order)
    : row_(order + 1), solution_(row_.size(), 0.0) {
  squares_.assign(row_.size() * row_.size(), 0.0);
}

void Autoregression::learn(std::span<const double> before, double next) {
  const std::size_t n = row_.size();
  row_[0] = 1;
  std::reverse_copy(before.begin(), before.end(), row_.begin() + 1);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) squares_[i * n + j] += row_[i] * row_[j];
    solution_[i] += row_[i] * next;
  }
}

void Autoregression::solve() {
  // A ridge of 1e-9 of the largest diagonal element keeps the normal equations positive definite if values repeat.
  const std::size_t n = row_.size();
  double largest = 1e-300;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, squares_[i * n + i]);
  for (std::size_t i = 0; i < n; ++i) squares_[i * n + i] += 1e-9 * largest;
  solve_in_place(squares_, solution_);
  squares_.clear();
}

std::vector<double> Autoregression::predict(std::span<const double> before, std::int64_t horizon) const {
  std::vector<double> all(before.begin(), before.end());
  for (std::int64_t h = 0; h < horizon; ++h) {
    double sum = intercept();
    for (std::size_t k = 0; k < weight().size(); ++k) sum += weight()[k] * all[all.size() - 1 - k];
    all.push_back(sum);
  }
  return {all.end() - static_cast<std::ptrdiff_t>(horizon), all.end()};
}

}  // namespace unroll
