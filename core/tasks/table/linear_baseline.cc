// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/linear_baseline.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace unroll {

namespace linear_baseline {
namespace {

constexpr std::int64_t k_most_products = 4'000'000;  // N F K of a pass
constexpr int k_passes = 150;

// Rows with a 1 as their last feature.
struct LinearRows {
  std::int64_t F = 0;
  std::vector<double> x;        // [N,F]
  std::vector<double> targets;  // [N,K]; of classes [N,1], their ids
  std::int64_t size() const { return F == 0 ? 0 : std::ssize(x) / F; }
};

// Appends every `stride`-th row of a batch.
void add_rows(const Batch& batch, std::int64_t stride, LinearRows& rows) {
  const Tensor& x = batch.inputs.at("x");  // [T,B,I]
  const bool are_classes = batch.inputs.contains("labels");
  const Tensor& target = batch.inputs.at(are_classes ? "labels" : "target");
  const std::int64_t T = x.shape()[0], B = x.shape()[1], I = x.shape()[2], K = are_classes ? 1 : target.shape()[1];
  rows.F = T * I + 1;
  for (std::int64_t b = 0; b < B; b += stride) {
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t i = 0; i < I; ++i) rows.x.push_back(x.at((t * B + b) * I + i));
    rows.x.push_back(1);
    for (std::int64_t k = 0; k < K; ++k) rows.targets.push_back(target.at(b * K + k));
  }
}

// Rows of the training set, evenly spread, for which a pass has at most k_most_products.
struct UsedRows {
  std::int64_t K, batches, stride;  // every stride-th row of a batch
};
UsedRows used_rows(const Task& task, const Batch& first, std::int64_t n_classes) {
  const Shape& x = first.inputs.at("x").shape();
  const std::int64_t K = n_classes > 0 ? n_classes : first.inputs.at("target").shape()[1];
  const std::int64_t most = std::max<std::int64_t>(k_most_products / ((x[0] * x[2] + 1) * K), 1);
  return {K, std::clamp<std::int64_t>(most / x[1], 1, task.n_batches(Split::train)), 1 + (x[1] - 1) / most};
}

LinearRows training_rows(const Task& task, const UsedRows& used) {
  LinearRows rows;
  for (std::int64_t k = 0; k < used.batches; ++k)
    add_rows(task.batch(Split::train, 0, 0, k * task.n_batches(Split::train) / used.batches), used.stride, rows);
  return rows;
}

// Scales each feature but the last by the mean and deviation of the training rows.
class Standardized {
 public:
  explicit Standardized(const LinearRows& rows) : mean_(rows.F), inverse_(rows.F, 1) {
    const double n = static_cast<double>(std::max<std::int64_t>(rows.size(), 1));
    std::vector<double> square(rows.F);
    for (std::size_t i = 0; i < rows.x.size(); ++i) mean_[i % rows.F] += rows.x[i] / n;
    mean_.back() = 0;
    for (std::size_t i = 0; i < rows.x.size(); ++i) {
      const double centred = rows.x[i] - mean_[i % rows.F];
      square[i % rows.F] += centred * centred / n;
    }
    for (std::int64_t f = 0; f + 1 < rows.F; ++f) inverse_[f] = square[f] > 0 ? 1 / std::sqrt(square[f]) : 0;
  }
  void apply(LinearRows& rows) const {
    for (std::size_t i = 0; i < rows.x.size(); ++i)
      rows.x[i] = (rows.x[i] - mean_[i % rows.F]) * inverse_[i % rows.F];
  }

 private:
  std::vector<double> mean_, inverse_;
};

// x [N,F] times weights [F,K] -> [N,K]
std::vector<double> products(const LinearRows& rows, std::span<const double> weights, std::int64_t K) {
  std::vector<double> y(rows.size() * K);
  for (std::int64_t n = 0; n < rows.size(); ++n)
    for (std::int64_t f = 0; f < rows.F; ++f) {
      const double x = rows.x[n * rows.F + f];
      for (std::int64_t k = 0; k < K; ++k) y[n * K + k] += x * weights[f * K + k];
    }
  return y;
}
// The transpose of x times errors [N,K] -> [F,K]
std::vector<double> transposed_products(const LinearRows& rows, std::span<const double> errors, std::int64_t K) {
  std::vector<double> y(rows.F * K);
  for (std::int64_t n = 0; n < rows.size(); ++n)
    for (std::int64_t f = 0; f < rows.F; ++f) {
      const double x = rows.x[n * rows.F + f];
      for (std::int64_t k = 0; k < K; ++k) y[f * K + k] += x * errors[n * K + k];
    }
  return y;
}

// Turns answers [N,K] into the derivative of the loss: probabilities or answers, less the targets.
void to_errors(std::vector<double>& y, const LinearRows& rows, std::int64_t K, bool are_classes) {
  for (std::int64_t n = 0; n < rows.size(); ++n) {
    const std::span<double> row = std::span(y).subspan(n * K, K);
    if (!are_classes) {
      for (std::int64_t k = 0; k < K; ++k) row[k] -= rows.targets[n * K + k];
      continue;
    }
    const double top = *std::ranges::max_element(row);
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value - top);
    for (double& value : row) value /= sum;
    row[static_cast<std::int64_t>(rows.targets[n])] -= 1;
  }
}

// The largest eigenvalue of x' x, by the power method.
double largest_eigenvalue(const LinearRows& rows) {
  constexpr int k_steps = 20;
  std::vector<double> v(rows.F, 1);
  double size = 0;
  for (int step = 0; step < k_steps; ++step) {
    v = transposed_products(rows, products(rows, v, 1), 1);
    double square = 0;
    for (const double e : v) square += e * e;
    size = std::sqrt(square);
    for (double& e : v) e /= std::max(size, 1e-300);
  }
  return size;
}

// Accelerated gradient descent (Nesterov 1983; Beck & Teboulle 2009, FISTA with constant steps).
std::vector<double> fitted_weights(const LinearRows& rows, std::int64_t K, bool are_classes) {
  const double curvature = 1.1 * largest_eigenvalue(rows) * (are_classes ? 0.5 : 1) + 1;
  std::vector<double> weights(rows.F * K), ahead = weights;
  double t = 1;
  for (int pass = 0; pass < k_passes; ++pass) {
    std::vector<double> errors = products(rows, ahead, K);
    to_errors(errors, rows, K, are_classes);
    const std::vector<double> gradient = transposed_products(rows, errors, K);
    const double next_t = (1 + std::sqrt(1 + 4 * t * t)) / 2;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const bool is_bias = std::cmp_greater_equal(i, (rows.F - 1) * K);
      const double next = ahead[i] - (gradient[i] + (is_bias ? 0 : ahead[i])) / curvature;
      ahead[i] = next + (t - 1) / next_t * (next - weights[i]);
      weights[i] = next;
    }
    t = next_t;
  }
  return weights;
}

}  // namespace
}  // namespace linear_baseline

LinearAnswers linear_answers(const Task& task, Split split, std::int64_t n_classes) {
  namespace linear = linear_baseline;
  LinearAnswers result;
  if (task.n_batches(Split::train) == 0) return result;
  const linear::UsedRows used = linear::used_rows(task, task.batch(Split::train, 0, 0, 0), n_classes);
  const std::int64_t K = used.K;
  linear::LinearRows rows = linear::training_rows(task, used);
  const linear::Standardized scale(rows);
  scale.apply(rows);
  const std::vector<double> weights = linear::fitted_weights(rows, K, n_classes > 0);
  for (std::int64_t index = 0; index < task.n_batches(split); ++index) {
    linear::LinearRows asked;
    linear::add_rows(task.batch(split, 0, 0, index), 1, asked);
    scale.apply(asked);
    const std::vector<double> answers = linear::products(asked, weights, K);
    result.answers.insert(result.answers.end(), answers.begin(), answers.end());
    result.targets.insert(result.targets.end(), asked.targets.begin(), asked.targets.end());
  }
  return result;
}

std::vector<std::string> linear_notes(const Task& task, const std::string& name, std::int64_t n_classes) {
  const std::int64_t n = task.n_batches(Split::train);
  if (n == 0) return {};
  const Batch first = task.batch(Split::train, 0, 0, 0);
  const linear_baseline::UsedRows used = linear_baseline::used_rows(task, first, n_classes);
  if (used.batches == n && used.stride == 1) return {};
  const std::int64_t rows = first.inputs.at("x").shape()[1], of_batch = (rows + used.stride - 1) / used.stride;
  return {"baseline " + name + ": fitted to about " + std::to_string(used.batches * of_batch) + " of " +
          std::to_string(n * rows) + " rows"};
}

}  // namespace unroll
