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

// More rows and columns than a block of the product has. A window is one piece of memory with the batch first, and
// k_size pieces with the steps first.
const Type k_batch_first{DType::f32, {3, 210, 40}}, k_steps_first{DType::f32, {210, 3, 40}};
constexpr std::int64_t k_channels = 40, k_outputs = 70, k_size = 9, k_stride = 2;

Tensor values(const Type& type, int seed) {
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, std::sin(static_cast<double>(i * 7 + seed)));
  return t;
}

// The convolution of x with constant weights, or with all gradients.
TensorMap convolved(const Type& type, bool learns, PlanOptions options, bool in_place, int threads) {
  const auto backend = make_backend("cpu", {.threads = threads});
  Graph graph;
  const Type weight_type{DType::f32, {k_outputs, k_size, k_channels}};
  TensorMap inputs{{"x", values(type, 1)}};
  const Value x = graph.input("x", type);
  const Value w = learns ? graph.input("w", weight_type) : constant(graph, values(weight_type, 2));
  if (learns) inputs.emplace("w", values(weight_type, 2));
  const Value y = conv(x, w, {}, {.axes = {type == k_steps_first ? 0 : 1}, .stride = {k_stride}});
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
  for (const Type& type : {k_batch_first, k_steps_first}) {
    const TensorMap wanted = convolved(type, learns, options, /*in_place=*/false, 1);
    for (const int threads : {1, 2, 3})
      for (const auto& entry : convolved(type, learns, options, /*in_place=*/true, threads)) {
        CAPTURE(type.text());
        CAPTURE(entry.first);
        CAPTURE(threads);
        CHECK(std::ranges::equal(entry.second.bytes(), wanted.at(entry.first).bytes()));
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
  const Type weight_type{DType::f32, {k_outputs, k_size, k_channels}};
  graph.output("y", conv(graph.input("x", k_batch_first), graph.input("w", weight_type), {}, {.axes = {1}}));
  const std::size_t copy = k_batch_first.bytes() * k_size * 9 / 10;
  CHECK(plan(graph, *backend, {.without = {"windows_as_rows"}})->arena_bytes > copy);
  CHECK(plan(graph, *backend, {})->arena_bytes < copy / k_size);
}

}  // namespace test_cpu_windows
