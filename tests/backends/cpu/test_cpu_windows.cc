// SPDX-License-Identifier: Apache-2.0
// Products that read windows where they lie, against products of a copy of the windows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"

namespace test_cpu_windows {

using namespace unroll;

namespace {

// More rows and columns than a block of the product has.
const Type k_x{DType::f32, {3, 210, 40}};
constexpr std::int64_t k_outputs = 70, k_size = 9, k_stride = 2;

Tensor values(const Type& type, int seed) {
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, std::sin(static_cast<double>(i * 7 + seed)));
  return t;
}

// The convolution of x with constant weights, or with all gradients.
TensorMap convolved(bool learns, PlanOptions options, bool in_place, int threads) {
  const auto backend = make_backend("cpu", {.threads = threads});
  Graph graph;
  const Type weight_type{DType::f32, {k_outputs, k_size, k_x.shape[2]}};
  TensorMap inputs{{"x", values(k_x, 1)}};
  const Value x = graph.input("x", k_x);
  const Value w = learns ? graph.input("w", weight_type) : constant(graph, values(weight_type, 2));
  if (learns) inputs.emplace("w", values(weight_type, 2));
  const Value y = conv(x, w, {}, {.axes = {1}, .stride = {k_stride}});
  graph.output("y", y);
  if (learns) {
    const Value both[] = {x, w};
    const auto gradients = differentiate(sum(y * y), both);
    graph.output("d_x", gradients[0]);
    graph.output("d_w", gradients[1]);
  }
  if (!in_place) options.without.emplace_back("windows_as_rows");
  return unroll::Program(graph, *backend, options).run(inputs);
}

void check_same(bool learns, const PlanOptions& options) {
  const TensorMap wanted = convolved(learns, options, /*in_place=*/false, 1);
  for (const int threads : {1, 2, 3}) {
    const TensorMap found = convolved(learns, options, /*in_place=*/true, threads);
    for (const auto& [name, tensor] : wanted) {
      CAPTURE(name);
      CAPTURE(threads);
      CHECK(std::ranges::equal(found.at(name).bytes(), tensor.bytes()));
    }
  }
}

}  // namespace

TEST_CASE("a convolution and its gradients have the bits of products with a copy of the windows") {
  check_same(false, {});
  check_same(true, {});
}

TEST_CASE("operands of 16 bits and weights of 16 and 8 bits too") {
  for (const Precision precision : {Precision::bf16, Precision::f16}) check_same(true, {.precision = precision});
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8}) check_same(false, {.weights = format});
}

TEST_CASE("the plan keeps no copy of the windows") {
  const auto backend = make_backend("cpu", {.threads = 1});
  Graph graph;
  const Type weight_type{DType::f32, {k_outputs, k_size, k_x.shape[2]}};
  graph.output("y", conv(graph.input("x", k_x), graph.input("w", weight_type), {}, {.axes = {1}}));
  const std::size_t copy = k_x.bytes() * k_size * 9 / 10;
  CHECK(plan(graph, *backend, {.without = {"windows_as_rows"}})->arena_bytes > copy);
  CHECK(plan(graph, *backend, {})->arena_bytes < copy / k_size);
}

}  // namespace test_cpu_windows
