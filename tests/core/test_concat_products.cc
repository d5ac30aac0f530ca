// SPDX-License-Identifier: Apache-2.0
// Products that share an operand, by the shape of the graph that is left and by what it computes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/passes/passes.h"
#include "tests/core/small_graphs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::test_concat_products {
namespace {

using testing::count;

constexpr std::int64_t T = 7, B = 3, I = 5, H = 4;

Type f64(Shape shape) { return {DType::f64, shape}; }
int in_loops(const Graph& graph, Op op) {
  int n = 0;
  for (const Node& node : graph.nodes())
    if (node.op == Op::scan) n += count(*node.body, op);
  return n;
}

// A cell with three gates that no composite has, each with its own weights: h' = s(f) h + s(i) g, g = tanh(...) + h.
struct Layer {
  Graph graph;
  explicit Layer(bool gradient, std::int64_t steps = T) {
    const Value x = graph.input("x", f64({steps, B, I})), h = graph.input("h", f64({B, H}));
    std::vector<Value> constants;
    for (int gate = 0; gate < 3; ++gate)
      for (const Shape& shape : {Shape{H, I}, Shape{H, H}, Shape{H}})
        constants.push_back(graph.input("p" + std::to_string(constants.size()), f64(shape)));
    const auto r = scan(std::vector{h}, std::vector{x}, constants, [](const StepValues& v) -> StepResult {
      std::vector<Value> gates;
      for (std::size_t k = 0; k < 9; k += 3)
        gates.push_back(linear(v.sequences[0], v.constants[k]) + linear(v.states[0],
            v.constants[k + 1]) + v.constants[k + 2]);
      const Value next = sigmoid(gates[0]) * v.states[0] + sigmoid(gates[1]) * (tanh(gates[2]) + v.states[0]);
      return {{next}, {next}};
    });
    graph.output("y", r.outputs[0]);
    if (!gradient) return;
    constants.push_back(x);
    const auto gradients = differentiate(mean(square(r.outputs[0])), constants);
    for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("d" + std::to_string(i), gradients[i]);
  }
  TensorMap inputs() const {
    TensorMap values;
    for (const NamedValue& input : graph.inputs()) {
      Tensor t(graph.type(input.value));
      for (std::int64_t i = 0; i < t.elements(); ++i)
        t.set(i, 0.5 * std::sin(static_cast<double>(i * i + 3 * static_cast<std::int64_t>(values.size()) + 1)));
      values[input.name] = t;
    }
    return values;
  }
};

TEST_CASE("gates with weights of their own become one product with the input and one with the state") {
  const Layer layer(false);
  CHECK(in_loops(layer.graph, Op::matmul) == 6);
  CHECK(in_loops(*concat_products(layer.graph), Op::matmul) == 2);
  const auto cpu = make_backend("cpu", {.threads = 1});
  const auto lowered = lower(layer.graph, *cpu);
  CHECK(in_loops(*lowered, Op::matmul) == 1);  // the state's
  CHECK(count(*lowered, Op::matmul) == 1);     // the input's, for all steps
}

TEST_CASE("a few steps do not pay for putting weights side by side") {
  CHECK(in_loops(*concat_products(Layer(false, 2).graph), Op::matmul) == 6);
}

TEST_CASE("gradients of gates are one product for the state, one for the input and one for each weight matrix") {
  const Layer layer(true);
  const auto cpu = make_backend("cpu", {.threads = 1});
  const auto apart = lower(layer.graph, *cpu, {.without = {"concat_products"}});
  const auto together = lower(layer.graph, *cpu);
  CHECK(in_loops(*apart, Op::matmul) == 3 + 3);
  CHECK(in_loops(*together, Op::matmul) == 1 + 1);
  CHECK(count(*together, Op::matmul) == 1 + 1 + 2);  // x W; d W; d^T x and d^T h
  CHECK(count(*apart, Op::matmul) == 3 + 3 + 6);
  int sums = 0;  // of the biases: one over the rows of all gates
  for (const Node& node : together->nodes()) sums += node.op == Op::reduce_sum && node.outputs[0].shape == Shape{3 * H};
  CHECK(sums == 1);
}

TEST_CASE("each gate's gradient is stacked once, beside the others") {
  const Layer layer(true);
  const auto together = lower(layer.graph, *make_backend("cpu", {.threads = 1}));
  for (const Node& node : together->nodes()) {
    if (node.op != Op::scan || !scan_layout(node).reverse) continue;
    int wide = 0, narrow = 0;
    for (std::size_t k = static_cast<std::size_t>(scan_layout(node).n_states); k < node.outputs.size(); ++k)
      (node.outputs[k].shape[2] == 3 * H ? wide : narrow) += 1;
    CHECK(wide == 1);
    CHECK(narrow == 0);
  }
}

TEST_CASE("results are those of the products apart") {
  const Layer layer(true);
  const auto reference = make_backend("reference");
  const TensorMap with = evaluate(layer.graph, *reference, layer.inputs());
  const TensorMap without = evaluate(layer.graph, *reference, layer.inputs(), {.without = {"concat_products"}});
  for (const auto& [result, wanted] : without)
    for (std::int64_t i = 0; i < wanted.elements(); ++i)
      CHECK(with.at(result).at(i) == doctest::Approx(wanted.at(i)).epsilon(1e-12));
}

TEST_CASE("a product that reads another one of its siblings stays apart") {
  Graph g;
  const Value h = g.input("h", f64({B, H})), x = g.input("x", f64({T, B, H}));
  const Value u = g.input("u", f64({H, H})), w = g.input("w", f64({H, H}));
  const auto r = scan(std::vector{h}, std::vector{x}, std::vector{u, w}, [](const StepValues& v) -> StepResult {
    const Value first = matmul(v.states[0], v.constants[0]);
    const Value second = matmul(tanh(first), v.constants[1]) + matmul(v.sequences[0], v.constants[1]);
    return {{tanh(second)}, {second}};
  });
  g.output("y", r.outputs[0]);
  const auto result = concat_products(g);
  CHECK_NOTHROW(verify(*result));
  CHECK(in_loops(*result, Op::matmul) == 3);  // x w must stay apart from what needs the state
}

TEST_CASE("outside of loops siblings join where elementwise ops read them and rows pay for it") {
  const auto products = [](std::int64_t rows, bool elementwise) {
    Graph g;
    const Value x = g.input("x", f64({rows, I})), u = g.input("u", f64({I, H})), w = g.input("w", f64({I, H}));
    const Value a = matmul(x, u), b = matmul(x, w);
    if (elementwise) g.output("y", a * sigmoid(b));
    else g.output("a", a), g.output("b", b);
    return count(*concat_products(g), Op::matmul);
  };
  CHECK(products(64, true) == 1);
  CHECK(products(4, true) == 2);
  CHECK(products(64, false) == 2);
}

}  // namespace
}  // namespace unroll::test_concat_products
