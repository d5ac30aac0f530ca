// SPDX-License-Identifier: Apache-2.0
// Transposes between layers, and transposes of constants.
#include <doctest/doctest.h>

#include "core/passes/passes.h"
#include "tests/core/small_graphs.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::test_transposes {
namespace {

using testing::count;

const Ints k_last{0, 2, 1}, k_first{0, 2, 1};

// A layer for which channels are the last axis, between transposes.
Value layer(Value x, const std::string& weight) {
  const Value w = x.graph().input(weight, {DType::f32, {4, 4}});
  return transpose(linear(transpose(x, k_last), w), k_first);
}

// Between two layers `between` works on [B,C,L].
template <class F>
std::shared_ptr<const Graph> folded(F&& between) {
  auto graph = std::make_shared<Graph>();
  const Value x = layer(graph->input("x", {DType::f32, {2, 4, 5}}), "a");
  graph->output("y", layer(between(x), "b"));
  return fold(*graph);
}

TEST_CASE("elementwise work, slices, pads and concatenations between two layers lose the transposes around them") {
  const auto plain = folded([](Value x) { return x * sigmoid(x); });
  CHECK(count(*plain, Op::transpose) == 2);  // of the input, and of the output
  const auto moving = folded([](Value x) {
    const Value parts[] = {slice(x, 1, 0, 2), relu(slice(x, 1, 2, 2))};
    return slice(pad(concat(parts, 1), 2, 1, 1), 2, 0, 5);
  });
  CHECK(count(*moving, Op::transpose) == 2);
  const auto scaled = folded([](Value x) { return x * x.graph().input("scale", {DType::f32, {4, 1}}); });
  CHECK(count(*scaled, Op::transpose) == 3);  // the third is of 4 elements
}

TEST_CASE("a transpose stays where another value of its size takes part") {
  const auto other = folded([](Value x) { return x + x.graph().input("other", {DType::f32, {2, 4, 5}}); });
  CHECK(count(*other, Op::transpose) == 4);
  const auto summed = folded([](Value x) { return broadcast(reduce_sum(x, {1}, true), x.shape()); });
  CHECK(count(*summed, Op::transpose) == 4);
}

TEST_CASE("the transpose of a constant of three axes is a constant") {
  Graph graph;
  const Value c = constant(graph, Tensor::from<float>({1, 2, 3}, {0, 1, 2, 3, 4, 5}));
  graph.output("y", transpose(c, {2, 0, 1}) + graph.input("x", {DType::f32, {3, 1, 2}}));
  const auto done = fold(graph);
  REQUIRE(count(*done, Op::transpose) == 0);
  for (const Node& node : done->nodes()) {
    if (node.op != Op::constant) continue;
    const auto values = node.attributes.get<std::shared_ptr<const Tensor>>("value")->values<float>();
    CHECK(std::vector<float>(values.begin(), values.end()) == std::vector<float>{0, 3, 1, 4, 2, 5});
  }
}

}  // namespace
}  // namespace unroll::test_transposes
