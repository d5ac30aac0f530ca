// SPDX-License-Identifier: Apache-2.0
#include "tests/support/finite_difference.h"

#include <algorithm>
#include <cmath>

#include "backends/registry.h"
#include "tests/support/backends.h"
#include "tests/support/simple_plan.h"
#include "unroll/autodiff/autodiff.h"

namespace unroll::testing {

namespace {

constexpr double k_step = 7e-4;  // about the fifth root of u: both errors of the formula near 1e-12
constexpr double k_relative = 1e-7, k_absolute = 1e-9;
constexpr std::int64_t k_derivatives = 32;  // of one case and order, spread evenly over its inputs
constexpr std::int64_t k_fewest = 2;        // of one input

std::string prefix(char letter, int order) { return letter + std::to_string(order) + "_"; }

// Original float inputs: those that are not cotangents.
std::vector<NamedValue> differentiated_inputs(const Graph& g) {
  std::vector<NamedValue> list;
  for (const NamedValue& input : g.inputs())
    if (is_float(g.type(input.value).dtype) && input.name.rfind("c1_", 0) != 0) list.push_back(input);
  return list;
}

// The outputs that order `order` differentiates: the case's own, or the gradients of the order below.
std::vector<NamedValue> differentiated_outputs(const Graph& g, int order) {
  std::vector<NamedValue> list;
  for (const NamedValue& output : g.outputs())
    if (is_float(g.type(output.value).dtype) && (order == 1 || output.name.rfind(prefix('d', order - 1), 0) == 0))
      list.push_back(output);
  return list;
}

// sum over k of <output k, c_k> as a function of the inputs.
class Scalar {
 public:
  Scalar(const Case& c, int order, TensorMap cotangents)
      : graph_(gradient_graph(c, DType::f64, order - 1)), plan_(simple_plan(expanded(*graph_))),
        outputs_(differentiated_outputs(*graph_, order)), cotangents_(std::move(cotangents)), order_(order),
        backend_(make_reference_backend({})) {}

  double operator()(const TensorMap& inputs) const {
    const TensorMap results = run_plan(plan_, *backend_, inputs);
    double sum = 0;
    for (const NamedValue& output : outputs_) {
      const Tensor &y = results.at(output.name), &c = cotangents_.at(prefix('c', order_) + output.name);
      for (std::int64_t i = 0; i < y.elements(); ++i) sum += y.at(i) * c.at(i);
    }
    return sum;
  }

 private:
  std::shared_ptr<Graph> graph_;
  std::shared_ptr<const Plan> plan_;
  std::vector<NamedValue> outputs_;
  TensorMap cotangents_;
  int order_;
  std::unique_ptr<Backend> backend_;
};

double difference(const Scalar& f, TensorMap& inputs, Tensor& x, std::int64_t i, double step) {
  const double at = x.at(i), h = step > 0 ? step : k_step * std::max(1.0, std::abs(at));
  const auto value = [&](double shift) {
    x.set(i, at + shift);
    return f(inputs);
  };
  const double slope = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
  x.set(i, at);
  return slope;
}

void note(GradientCheck& check, double got, double wanted, const std::string& name, std::int64_t i) {
  const double allowed = k_relative * std::max(std::abs(got), std::abs(wanted)) + k_absolute;
  const double error = std::abs(got - wanted), ratio = error == error ? error / allowed : HUGE_VAL;
  ++check.elements;
  if (ratio <= check.ratio) return;
  check.ratio = ratio;
  char text[200];
  std::snprintf(text, sizeof text, "d %s[%lld]: gradient %.12g, difference %.12g, %.3g of the allowed error",
                name.c_str(), static_cast<long long>(i), got, wanted, ratio);
  check.worst = text;
}

}  // namespace

void append_gradient(Graph& g, int order) {
  const auto inputs = differentiated_inputs(g), outputs = differentiated_outputs(g, order);
  std::vector<Value> ys, cotangents, xs;
  for (const NamedValue& output : outputs) {
    ys.push_back(g.value(output.value));
    cotangents.push_back(g.input(prefix('c', order) + output.name, ys.back().type()));
  }
  for (const NamedValue& input : inputs) xs.push_back(g.value(input.value));
  const auto gradients = differentiate(ys, cotangents, xs);
  for (std::size_t i = 0; i < gradients.size(); ++i) g.output(prefix('d', order) + inputs[i].name, gradients[i]);
}

std::shared_ptr<Graph> gradient_graph(const Case& c, DType dtype, int order) {
  auto graph = build_case(c, dtype);
  for (int k = 1; k <= order; ++k) append_gradient(*graph, k);
  return graph;
}

GradientCheck check_gradient(const Case& c, int order) {
  const auto graph = gradient_graph(c, DType::f64, order);
  TensorMap inputs = make_inputs(*graph, c.ranges, c.name);
  const TensorMap results = run_truth(*graph, inputs);
  const Scalar f(c, order, inputs);
  const auto wrt = differentiated_inputs(*build_case(c, DType::f64));
  const std::int64_t share =
      std::max(k_fewest, k_derivatives / static_cast<std::int64_t>(std::max<std::size_t>(wrt.size(), 1)));
  // The scalar does not take the cotangents of its own order as inputs.
  std::erase_if(inputs, [&](const auto& entry) { return entry.first.rfind(prefix('c', order), 0) == 0; });
  GradientCheck check;
  for (const NamedValue& input : wrt) {
    Tensor& x = inputs.at(input.name);
    const Tensor& gradient = results.at(prefix('d', order) + input.name);
    const std::int64_t n = x.elements(), stride = std::max<std::int64_t>(1, (n + share - 1) / share);
    for (std::int64_t i = 0; i < n; i += stride)
      note(check, gradient.at(i), difference(f, inputs, x, i, c.step), input.name, i);
  }
  return check;
}

}  // namespace unroll::testing
