// SPDX-License-Identifier: Apache-2.0
// Loops cut into chunks of steps: the same results, and layers that can run side by side.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/passes/memory/branches.h"
#include "core/passes/passes.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll::test_chunk_scans {
namespace {

struct Network {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  TensorMap inputs;
};

// Loss and gradients of stacked layers over x [T=10,B=3,I=4], with dropout between them.
Network stack(const std::string& cell, bool bidirectional, bool lengths = false) {
  Network n;
  Scope scope(*n.graph, /*training=*/true);
  const Value x = n.graph->input("x", {DType::f32, {10, 3, 4}});
  const Value length = lengths ? n.graph->input("lengths", {DType::i32, {3}}) : Value();
  const RecurrentModelOptions options{
      .cell = cell, .hidden = 6, .layers = 3, .bidirectional = bidirectional, .dropout = lengths ? 0 : 0.25};
  const Value loss = mean(square(recurrent_model(scope, x, options, {}, length).y));
  n.graph->output("loss", loss);
  testing::output_gradients(scope, loss);
  n.inputs = initialize(scope.parameters(), 1);
  for (const NamedValue& input : n.graph->inputs()) {
    const Type type = n.graph->type(input.value);
    if (n.inputs.contains(input.name)) continue;
    if (input.name == "lengths") n.inputs.emplace(input.name, Tensor::from<std::int32_t>({3}, {10, 7, 2}));
    else if (type.dtype == DType::i32) n.inputs.emplace(input.name, Tensor(type));
    else n.inputs.merge(initialize(std::vector{ParameterSpec{input.name, type, Initializer::uniform(1)}}, 2));
  }
  return n;
}

std::vector<std::int64_t> steps_of_loops(const Graph& graph) {
  std::vector<std::int64_t> steps;
  for (const Node& node : graph.nodes())
    if (node.op == Op::scan && scan_layout(node).n_states > 0) steps.push_back(scan_layout(node).steps);
  return steps;
}

// On `cpu` a product of few rows takes another kernel, which sums in another order: there only chunks of many rows. Row
// groups there add up the rows of each step of a whole loop, but not of a chunk: layer norms do without sum_rows.
TEST_CASE("loops in chunks give the bits of whole loops, values and gradients") {
  for (const std::string name : {"reference", "cpu"})
    for (const char* cell : {"rnn", "gru", "lstm", "lnlstm"})
      for (const bool bidirectional : {false, true}) {
        if (std::string(cell) == "lnlstm" && bidirectional) continue;
        CAPTURE(name);
        CAPTURE(std::string(cell));
        CAPTURE(bidirectional);
        const auto backend = make_backend(name, {.threads = 2});
        const Network n = stack(cell, bidirectional);
        PlanOptions options;
        if (name == "cpu" && std::string(cell) == "lnlstm") options.without = {"sum_rows"};
        const TensorMap whole = Program(*n.graph, *backend, options).run(n.inputs);
        for (const std::int64_t steps : {1, 9, 4, 5, 10, 50}) {
          if (name == "cpu" && (steps == 1 || steps == 9)) continue;
          CAPTURE(steps);
          options.chunk_steps = steps;
          const TensorMap chunks = Program(*n.graph, *backend, options).run(n.inputs);
          for (const auto& output : whole) {
            CAPTURE(output.first);
            REQUIRE(std::ranges::equal(output.second.bytes(), chunks.at(output.first).bytes()));
          }
        }
      }
}

TEST_CASE("a layer begins when the layer below has finished its first chunk, forwards and backwards") {
  const auto backend = make_backend("cpu", {.threads = 2});
  const Network n = stack("lstm", false);
  CHECK(plan(*n.graph, *backend)->forks.empty());
  const auto chunked = plan(*n.graph, *backend, {.chunk_steps = 4});
  // Three chunks of three layers: 1, 2, 3, 2, 1 loops at once in each direction.
  CHECK(steps_of_loops(*chunked->graph).size() == 18);
  std::vector<int> branches;
  for (const Fork& fork : chunked->forks) branches.push_back(static_cast<int>(fork.n_branches()));
  CHECK(branches == std::vector<int>{2, 3, 2, 2, 3, 2});
}

TEST_CASE("the last chunk is what remains, and packed loops stay whole") {
  const auto backend = make_backend("reference");
  CHECK(steps_of_loops(*lower(*stack("rnn", false).graph, *backend, {.chunk_steps = 8})) ==
        std::vector<std::int64_t>{8, 2, 8, 2, 8, 2, 2, 8, 2, 8, 2, 8});
  const auto cpu = make_backend("cpu", {.threads = 2});
  const Network n = stack("lstm", false, /*lengths=*/true);
  for (const std::int64_t steps : steps_of_loops(*lower(*n.graph, *cpu, {.chunk_steps = 4}))) CHECK(steps == 10);
}

// y: sums over time of `n` tanh of sums over time of x [6,2,3].
std::unique_ptr<Graph> chain_between_loops(int n) {
  auto g = std::make_unique<Graph>();
  const Value x = g->input("x", {DType::f32, {6, 2, 3}}), states[] = {g->input("h0", {DType::f32, {2, 3}})};
  const auto sums = [&](Value of) {
    const Value sequences[] = {of};
    const auto step = [](const StepValues& v) {
      const Value h = v.states[0] + v.sequences[0];
      return StepResult{{h}, {h}};
    };
    return scan(states, sequences, {}, step, {.lengths = {}, .reset = {}}).outputs[0];
  };
  Value between = sums(x);
  for (int k = 0; k < n; ++k) between = tanh(between);
  g->output("y", sums(between));
  return g;
}

TEST_CASE("any number of elementwise nodes may lie between two loops") {
  const auto backend = make_backend("reference");
  TensorMap inputs;
  for (const auto g = chain_between_loops(1); const NamedValue& input : g->inputs())
    inputs.merge(initialize(std::vector{ParameterSpec{input.name, g->type(input.value), Initializer::uniform(1)}}, 3));
  for (const int n : {1, 63, 64, 65, 200}) {
    CAPTURE(n);
    const auto g = chain_between_loops(n);
    const TensorMap whole = evaluate(*g, *backend, inputs), chunks = evaluate(*chunk_scans(*g, 4), *backend, inputs);
    CHECK(std::ranges::equal(whole.at("y").bytes(), chunks.at("y").bytes()));
  }
  const auto chunked = chunk_scans(*chain_between_loops(100000), 4);  // recursion would exhaust the stack
  CHECK(steps_of_loops(*chunked) == std::vector<std::int64_t>{4, 2, 4, 2});
}

}  // namespace
}  // namespace unroll::test_chunk_scans
