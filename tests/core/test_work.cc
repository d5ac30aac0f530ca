// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/work.h"

namespace unroll {
namespace {

const Node& last_node(const Graph& graph) { return graph.nodes().back(); }

TEST_CASE("a product counts two for each multiply-add, whichever way its operands lie") {
  Graph graph;
  const Value a = graph.input("a", {DType::f32, {3, 5}}), turned = graph.input("t", {DType::f32, {5, 3}});
  const Value b = graph.input("b", {DType::f32, {5, 7}});
  matmul(a, b);
  CHECK(node_work(graph, last_node(graph)).flop == 2 * 3 * 5 * 7);
  CHECK(node_work(graph, last_node(graph)).bytes == 4 * (3 * 5 + 5 * 7 + 3 * 7));
  matmul(turned, b, {.a = true});
  CHECK(node_work(graph, last_node(graph)).flop == 2 * 3 * 5 * 7);
}

TEST_CASE("an elementwise op counts its results, a sum its summands, and what moves data nothing") {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {4, 6}});
  tanh(x);
  CHECK(node_work(graph, last_node(graph)).flop == 24);
  reduce_sum(x, {0});
  CHECK(node_work(graph, last_node(graph)).flop == 24);
  transpose(x, {1, 0});
  CHECK(node_work(graph, last_node(graph)).flop == 0);
  CHECK(node_work(graph, last_node(graph)).bytes == 4 * 48);
}

TEST_CASE("a recurrent layer counts the products of all its steps, forward and in its gradient") {
  constexpr double k_t = 5, k_b = 3, k_i = 4, k_h = 8;
  Graph graph;
  Scope scope(graph, /*training=*/true);
  const Value x = graph.input("x", {DType::f32, {5, 3, 4}});
  graph.output("y", recurrent_model(scope, x, {.cell = "lstm", .hidden = 8}).y);
  const double products = 2 * k_t * k_b * 4 * k_h * (k_i + k_h);
  CHECK(graph_flop(graph) > products);
  CHECK(graph_flop(graph) < 1.5 * products);  // gates besides
  for (const Node& node : graph.nodes())
    if (node.op == Op::lstm) CHECK(node_work(graph, node).flop >= products);
}

}  // namespace
}  // namespace unroll
