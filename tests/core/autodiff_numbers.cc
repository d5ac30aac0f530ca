// SPDX-License-Identifier: Apache-2.0
#include "tests/core/autodiff_numbers.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/registry.h"
#include "tests/support/backends.h"
#include "tests/support/simple_plan.h"
#include "unroll/autodiff/autodiff.h"

namespace unroll::testing {

namespace {

constexpr double k_h = 1e-3;

using Builder = std::function<Value(std::span<const Value>)>;

std::string input_name(std::size_t i) { return "v" + std::to_string(i); }

struct Built {
  Graph graph;
  std::vector<Value> inputs;
};

std::unique_ptr<Built> build(const LossCase& example, const Builder& loss, bool with_gradients) {
  auto p = std::make_unique<Built>();
  for (const Shape& shape : example.shapes)
    p->inputs.push_back(p->graph.input(input_name(p->inputs.size()), {DType::f64, shape}));
  const Value value = loss(p->inputs);
  p->graph.output("loss", value);
  if (!with_gradients) return p;
  const auto gradients = differentiate(value, p->inputs);
  for (std::size_t i = 0; i < gradients.size(); ++i) p->graph.output("d" + std::to_string(i), gradients[i]);
  return p;
}

TensorMap draw(const LossCase& example) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(example.low, example.high);
  TensorMap inputs;
  for (std::size_t i = 0; i < example.shapes.size(); ++i) {
    Tensor t(DType::f64, example.shapes[i]);
    for (double& x : t.values<double>()) x = uniform(random);
    inputs.emplace(input_name(i), std::move(t));
  }
  return inputs;
}

double error_of(const LossCase& example, const Builder& loss) {
  const auto forward = build(example, loss, false);
  const auto plan = simple_plan(expanded(forward->graph));
  const auto backend = make_reference_backend({});
  TensorMap inputs = draw(example);
  const TensorMap gradients = run_truth(build(example, loss, true)->graph, inputs);
  double largest = 1, worst = 0;
  for (std::size_t i = 0; i < example.shapes.size(); ++i) {
    const Tensor& d = gradients.at("d" + std::to_string(i));
    Tensor& x = inputs.at(input_name(i));
    for (std::int64_t e = 0; e < x.elements(); ++e) {
      const double center = x.at(e);
      const auto f = [&](double shift) {
        x.set(e, center + shift);
        const double y = run_plan(plan, *backend, inputs).at("loss").at(0);
        x.set(e, center);
        return y;
      };
      const double difference = (8 * (f(k_h) - f(-k_h)) - (f(2 * k_h) - f(-2 * k_h))) / (12 * k_h);
      largest = std::max(largest, std::abs(d.at(e)));
      worst = std::max(worst, std::isnan(d.at(e)) ? INFINITY : std::abs(d.at(e) - difference));
    }
  }
  return worst / largest;
}

}  // namespace

double first_order_error(const LossCase& example) { return error_of(example, example.loss); }

double second_order_error(const LossCase& example) {
  return error_of(example, [&](std::span<const Value> in) {
    const Value loss = example.loss(in);
    const auto gradients = differentiate(loss, in);
    Value total = scalar_like(loss, 0);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      // Weights that differ from element to element: 1, 2, 3, 1, ...
      Tensor weights(gradients[i].type());
      for (std::int64_t e = 0; e < weights.elements(); ++e) weights.set(e, static_cast<double>(e % 3) + 1);
      total = total + sum(gradients[i] * constant(loss.graph(), weights));
    }
    return total;
  });
}

}  // namespace unroll::testing
