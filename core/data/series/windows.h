// SPDX-License-Identifier: Apache-2.0
// Standardization of series, least squares, and a linear autoregression as a forecast baseline.
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

// Least-squares fit of targets = intercept + weights^T inputs, for several targets of the same inputs.
class LeastSquares {
 public:
  LeastSquares(std::int64_t inputs, std::int64_t targets);
  void learn(std::span<const double> inputs, std::span<const double> targets, double weight = 1);
  double weight_sum() const { return weight_sum_; }  // of learned examples
  double largest_square() const;                     // of the diagonal of the normal equations
  // Adds `ridge` to the diagonal of the normal equations (Hoerl & Kennard 1970). It must keep them positive definite.
  void solve(double ridge);
  // Valid after solve():
  double intercept(std::size_t target) const { return solution_[target]; }
  double weight(std::size_t input, std::size_t target) const { return solution_[(input + 1) * targets_ + target]; }
  void predict(std::span<const double> inputs, std::span<double> targets) const;

 private:
  std::size_t n_, targets_;        // n_: inputs and the intercept
  double weight_sum_ = 0;          // of learned examples
  std::vector<double> squares_;    // [n_, n_] normal equations, the lower triangle
  std::vector<double> row_;        // [n_] 1 and the inputs
  std::vector<double> solution_;   // [n_, targets] right-hand sides, until solved
};

// Least-squares fit of next = intercept + sum over k of weight[k] * the value k + 1 steps earlier.
class Autoregression {
 public:
  explicit Autoregression(std::int64_t order) : fit_(order, 1), before_(order) {}
  // before: `order` values, oldest first.
  void learn(std::span<const double> before, double next);
  void solve();
  const LeastSquares& fit() const { return fit_; }  // input k is the value k + 1 steps earlier
  // Predicts the `horizon` values after `before`. From the second value on it reads its own predictions.
  std::vector<double> predict(std::span<const double> before, std::int64_t horizon) const;

 private:
  LeastSquares fit_;
  std::vector<double> before_;  // newest first
};

}  // namespace unroll
