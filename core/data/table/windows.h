// SPDX-License-Identifier: Apache-2.0
// Standardization of series, and a linear autoregression as a forecast baseline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace unroll {

// z = (value - mean) / deviation
struct ZScore {
  double mean = 0, deviation = 1;
  double apply(double value) const { return (value - mean) / deviation; }
};

// Fits to `n` values in two passes, in the same order.
class ZScoreFit {
 public:
  explicit ZScoreFit(std::int64_t n) : n_(static_cast<double>(n)) {}
  void first(double value) { mean_ += value / n_; }
  void second(double value) {
    variance_ += (value - mean_) * (value - mean_) / n_;
    last_ = value;
  }
  ZScore score() const;  // for constant values: their value (the mean has rounding errors) and deviation 1

 private:
  double n_, mean_ = 0, variance_ = 0, last_ = 0;
};

// Least-squares fit of next = intercept + sum over k of weight[k] * the value k + 1 steps earlier.
class Autoregression {
 public:
  explicit Autoregression(std::int64_t order);
  // before: `order` values, oldest first.
  void learn(std::span<const double> before, double next);
  void solve();
  double intercept() const { return solution_[0]; }
  std::span<const double> weight() const { return std::span(solution_).subspan(1); }
  // Predicts the `horizon` values after `before`. From the second value on it reads its own predictions.
  std::vector<double> predict(std::span<const double> before, std::int64_t horizon) const;

 private:
  std::vector<double> squares_, row_;  // [order + 1, order + 1] normal equations, one row of them
  std::vector<double> solution_;       // right-hand side until solved: then intercept and weights
};

}  // namespace unroll
