// SPDX-License-Identifier: Apache-2.0
// Parts of one value that loops stack and take become the value.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/passes/passes.h"
#include "tests/support/each_backend.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll::test_join_parts {
namespace {

constexpr std::int64_t T = 5, B = 3, H = 4;

// A loop that stacks `stacked` parts of a product of three, and one that takes the first `taken` of them.
std::unique_ptr<Graph> two_loops(std::size_t stacked, std::size_t taken) {
  auto graph = std::make_unique<Graph>();
  const Value h = graph->input("h", {DType::f32, {B, H}}), w = graph->input("w", {DType::f32, {3 * H, H}});
  const auto part = [](Value v, std::size_t k) { return slice(v, 1, static_cast<std::int64_t>(k) * H, H); };
  const auto first = scan(std::vector<Value>{h}, std::vector<Value>{}, std::vector<Value>{w}, [&](const StepValues& v) {
    const Value product = linear(v.states[0], v.constants[0]);
    StepResult result{{tanh(part(product, 0) * part(product, 1) + part(product, 2))}, {}};
    for (std::size_t k = 0; k < stacked; ++k) result.outputs.push_back(part(product, k));
    return result;
  }, {.lengths = {}, .reset = {}, .steps = T});
  const std::vector<Value> sequences(first.outputs.begin(), first.outputs.begin() + static_cast<std::ptrdiff_t>(taken));
  const auto second = scan(std::vector<Value>{h}, sequences, std::vector<Value>{}, [](const StepValues& v) {
    Value sum = v.states[0];
    for (std::size_t k = 0; k < v.sequences.size(); ++k) sum = sum * 0.5 + v.sequences[k];
    return StepResult{{sum}, {sum}};
  }, {.reverse = true, .lengths = {}, .reset = {}});
  graph->output("y", second.outputs[0]);
  graph->output("last", first.states[0]);
  return graph;
}

const Node& scan_of(const Graph& graph, int which) {
  for (const Node& node : graph.nodes())
    if (node.op == Op::scan && which-- == 0) return node;
  throw std::logic_error("no such scan");
}
std::size_t n_stacks(const Graph& graph) { return scan_of(graph, 0).outputs.size() - 1; }
int n_sequences(const Graph& graph) { return scan_layout(scan_of(graph, 1)).n_sequences; }

TEST_CASE("a product whose parts one loop stacks and the next takes is stacked and taken whole") {
  const auto joined = scan_dce(*join_parts(*two_loops(3, 3)));
  CHECK(n_stacks(*joined) == 1);
  CHECK(n_sequences(*joined) == 1);
  CHECK(scan_of(*joined, 0).outputs[1].shape == Shape{T, B, 3 * H});
  verify(*joined);
}

TEST_CASE("parts stay apart where not all of the value is stacked, or not all of it is taken") {
  const auto some_stacked = scan_dce(*join_parts(*two_loops(2, 2)));
  CHECK(n_stacks(*some_stacked) == 2);
  CHECK(n_sequences(*some_stacked) == 2);
  const auto some_taken = scan_dce(*join_parts(*two_loops(3, 2)));
  CHECK(n_sequences(*some_taken) == 2);
}

TEST_CASE("results are the same bits with and without the pass") {
  for (const std::size_t taken : {1, 2, 3}) {
    CAPTURE(taken);
    const auto graph = two_loops(3, taken);
    TensorMap inputs;
    std::vector<ParameterSpec> specs;
    for (const NamedValue& input : graph->inputs())
      specs.push_back({input.name, graph->type(input.value), Initializer::uniform(1)});
    inputs = initialize(specs, 1);
    for (const std::string& backend : testing::computing_backends()) {
      CAPTURE(backend);
      const auto on = make_backend(backend, {.threads = 2});
      PlanOptions without;
      without.without = {"join_parts"};
      const TensorMap with = evaluate(*graph, *on, inputs), apart = evaluate(*graph, *on, inputs, without);
      for (const auto& result : apart)
        CHECK_MESSAGE(std::ranges::equal(with.at(result.first).bytes(), result.second.bytes()), result.first);
    }
  }
}

}  // namespace
}  // namespace unroll::test_join_parts
