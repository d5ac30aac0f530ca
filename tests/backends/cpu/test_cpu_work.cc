// SPDX-License-Identifier: Apache-2.0
// Which plans get one thread: the guess must be right where it matters, not close.
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/cpu/cost/work.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll::test_cpu_work {
namespace {

struct Sizes {
  std::int64_t steps, batch, input, hidden;
};
std::shared_ptr<const Plan> lstm_plan(const Sizes& s, Backend& backend) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value x = graph.input("x", {DType::f32, {s.steps, s.batch, s.input}});
  graph.output("y", recurrent_model(scope, x, {.cell = "lstm", .hidden = s.hidden}).y);
  return plan(graph, backend);
}

TEST_CASE("a barrier a step is too much for a small cell and nothing for a large one") {
  const auto backend = make_backend("cpu", {.threads = 2});
  const auto pays = [&](const Sizes& s) { return cpu::threads_pay(cpu::usual_machine(), *lstm_plan(s, *backend), 2); };
  CHECK_FALSE(pays({63, 1, 24, 32}));
  CHECK_FALSE(pays({100, 1, 40, 64}));
  CHECK(pays({100, 1, 128, 256}));
  CHECK(pays({100, 32, 128, 256}));
  CHECK(pays({200, 64, 256, 512}));
}

TEST_CASE("a guess grows with the steps, and with threads by what their barriers cost") {
  const auto backend = make_backend("cpu", {.threads = 1});
  const auto guess = [&](std::int64_t steps, int parts) {
    return cpu::plan_ns(cpu::usual_machine(), *lstm_plan({steps, 8, 16, 32}, *backend), parts);
  };
  CHECK(guess(10, 1) > 0);
  CHECK(guess(1000, 1) / guess(10, 1) > 50);
  CHECK(guess(1000, 1) / guess(10, 1) < 200);
  CHECK(guess(1000, 2) - guess(1000, 1) / 2 > 0);
}

TEST_CASE("a backend that chooses its threads gives the bits of one that does not") {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value x = graph.input("x", {DType::f32, {5, 2, 8}});
  graph.output("y", recurrent_model(scope, x, {.cell = "gru", .hidden = 16}).y);
  TensorMap inputs = initialize(scope.parameters(), 1);
  const std::vector<ParameterSpec> spec{{"x", x.type(), Initializer::uniform(1)}};
  inputs.merge(initialize(spec, 2));
  const TensorMap chosen = evaluate(graph, *make_backend("cpu"), inputs);
  const TensorMap two = evaluate(graph, *make_backend("cpu", {.threads = 2}), inputs);
  CHECK(std::ranges::equal(chosen.at("y").bytes(), two.at("y").bytes()));
}

}  // namespace
}  // namespace unroll::test_cpu_work
