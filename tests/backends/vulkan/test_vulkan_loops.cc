// SPDX-License-Identifier: Apache-2.0
// Loops on the vulkan backend: how many dispatches a step takes, and that odd sizes give the values of `cpu`. Skips
// with the reason when there is no device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/loop_networks.h"
#include "tests/support/or_skip.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::test_vulkan_loops {
namespace {

using Sizes = testing::LoopSizes;
// None is a multiple of a tile, and the last has several tiles in each direction.
constexpr Sizes k_sizes[] = {{1, 2, 3, 1}, {2, 1, 5, 7}, {5, 3, 6, 9}, {4, 37, 11, 19}, {3, 34, 3, 70}};

std::unique_ptr<Backend> open_or_skip(BackendOptions options = {}) {
  return testing::or_skip([&] { return testing::open_tested("vulkan", options); });  // under the validation layer
}

void build(Graph& graph, const std::string& cell, const Sizes& s, bool trains) {
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {s.T, s.B, s.I}});
  const Value y = recurrent_model(scope, x, {.cell = cell, .hidden = s.H}).y;
  if (trains) testing::output_gradients(scope, mean(square(y)));
  graph.output("y", y);
}

TensorMap numbers_for(const Graph& graph) { return testing::small_numbers_for(graph, 3); }

// What the report says of the loops, in order: "steps of 1 dispatch".
std::vector<std::string> steps_of(const Program& program) {
  std::vector<std::string> found;
  for (const ReportLine& line : program.executable().report())
    if (const auto at = line.implementation.find("steps of"); at != std::string::npos)
      found.push_back(line.implementation.substr(at));
  return found;
}

}  // namespace

TEST_CASE("a step of a cell takes the dispatches that its exchanges need, also where rows end") {
  const auto backend = open_or_skip({.specific = {{"loops", "steps"}}});
  if (!backend) return;
  struct Row {
    std::string cell, forward, backward;
  };
  const Row rows[] = {{"rnn", "steps of 1 dispatch", "steps of 1 dispatch"},
                      {"lstm", "steps of 1 dispatch", "steps of 1 dispatch"},
                      {"gru", "steps of 1 dispatch", "steps of 1 dispatch"},
                      {"lnlstm", "steps of 2 dispatches", "steps of 2 dispatches"}};
  for (const Row& row : rows)
    for (const bool trains : {false, true})
      for (const bool rows_end : {false, true}) {
        CAPTURE(row.cell);
        CAPTURE(trains);
        CAPTURE(rows_end);
        Graph graph;
        const Sizes sizes = {6, 5, 12, 24};
        if (rows_end) testing::build_with_lengths(graph, {{.cell = row.cell}, sizes, trains});
        else build(graph, row.cell, sizes, trains);
        const Program program(graph, *backend);
        const std::vector<std::string> steps = steps_of(program);
        REQUIRE(steps.size() == (trains ? 2 : 1));
        CHECK(steps[0] == row.forward);
        if (trains) CHECK(steps[1] == row.backward);
      }
}

TEST_CASE("cells and their gradients have the values of cpu at odd sizes, and the same bits when they run again") {
  const auto backend = open_or_skip();
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  for (const std::string cell : {"rnn", "lstm", "gru", "lnlstm", "indrnn"})
    for (const Sizes& sizes : k_sizes) {
      CAPTURE(cell);
      CAPTURE(sizes.H);
      Graph graph;
      build(graph, cell, sizes, /*trains=*/true);
      const TensorMap inputs = numbers_for(graph), wanted = evaluate(graph, *cpu, inputs);
      Program program(graph, *backend);
      const TensorMap first = program.run(inputs), again = program.run(inputs);
      for (const auto& result : wanted) {
        CAPTURE(result.first);
        CHECK(testing::error_of(sizes, first.at(result.first), result.second) <= 1);
        CHECK(testing::same_bits(first.at(result.first), again.at(result.first)));
      }
    }
}

// Rows share workgroups in blocks that do not divide them, and loops are cut where few iterations are allowed.
TEST_CASE("whole loops have the bits of their steps: forward, gradients, 16 bits, reversed, cut into dispatches") {
  struct Way {
    std::unique_ptr<Backend> steps, whole;
    int dispatches = 0;
  };
  Way ways[3];  // cut by few iterations, then with the sizes of GPUs, where several subgroups meet at barriers
  for (const bool whole : {false, true}) {
    const std::string loops = whole ? "whole" : "steps";
    const auto open = [&](Way& way, BackendOptions options) {
      options.specific.emplace("loops", loops);
      (whole ? way.whole : way.steps) = open_or_skip(options);
    };
    open(ways[0], {});
    if (whole) open(ways[1], {.specific = {{"iterations", "600"}}});
    open(ways[2], {.specific = {{"sizes", "large"}}});
  }
  if (!ways[0].whole) return;
  struct Row {
    std::string cell;
    Sizes sizes;
    Precision precision;
  };
  const Row rows[] = {{"rnn", {1, 2, 3, 1}, Precision::f32},     {"rnn", {9, 1, 5, 7}, Precision::bf16},
                      {"lstm", {3, 34, 3, 70}, Precision::f32},  {"lstm", {5, 3, 6, 9}, Precision::f16},
                      {"gru", {4, 37, 11, 19}, Precision::f32},  {"gru", {5, 6, 3, 12}, Precision::bf16},
                      {"lnlstm", {3, 34, 3, 19}, Precision::f32}, {"lnlstm", {4, 5, 6, 9}, Precision::f16},
                      {"indrnn", {5, 13, 6, 9}, Precision::f32}};
  int loops = 0;
  for (const Row& row : rows) {
    CAPTURE(row.cell);
    CAPTURE(row.sizes.H);
    Graph graph;
    build(graph, row.cell, row.sizes, /*trains=*/true);
    const TensorMap inputs = numbers_for(graph);
    PlanOptions options;
    options.precision = row.precision;
    TensorMap wanted;
    for (Way& way : ways) {
      if (way.steps) wanted = Program(graph, *way.steps, options).run(inputs);
      Program program(graph, *way.whole, options);
      const TensorMap got = program.run(inputs);
      for (const auto& result : wanted) {
        CAPTURE(result.first);
        CHECK(testing::same_bits(got.at(result.first), result.second));
      }
      for (const ReportLine& line : program.executable().report()) {
        int n = 0;
        if (std::sscanf(line.implementation.c_str(), "whole loop in %d", &n) != 1) continue;
        ++loops;
        way.dispatches += n;
      }
    }
  }
  std::printf("%d whole loops, in %d dispatches and in %d where they are cut\n", loops, ways[0].dispatches,
              ways[1].dispatches);
  CHECK(loops >= 3 * 2 * 8);  // each and its gradient, in three ways; some are too large for few iterations
  CHECK(ways[1].dispatches > ways[0].dispatches);
}

// d^T x, d^T h, and the sums of d over its rows.
TEST_CASE("products of one matrix and the sums of its rows are one dispatch, with the values of cpu") {
  const auto cpu = make_backend("cpu");
  struct Row {
    std::int64_t rows, d, x, h;
  };
  // One tile, and several that end within a product.
  for (const Row& row : {Row{5, 3, 2, 7}, Row{37, 70, 65, 9}, Row{200, 130, 1, 130}})
    for (const std::string size : {"small", "large"}) {
      const auto backend = open_or_skip({.specific = {{"sizes", size}}});
      if (!backend) return;
      CAPTURE(row.rows);
      CAPTURE(size);
      Graph graph;
      const Value d = graph.input("d", {DType::f32, {row.rows, row.d}});
      graph.output("by x", matmul(d, graph.input("x", {DType::f32, {row.rows, row.x}}), {true, false}));
      graph.output("sums", reduce_sum(d, {0}));
      graph.output("by h", matmul(d, graph.input("h", {DType::f32, {row.rows, row.h}}), {true, false}));
      const TensorMap inputs = numbers_for(graph), wanted = evaluate(graph, *cpu, inputs);
      Program program(graph, *backend);
      std::string report;
      for (const ReportLine& line : program.executable().report()) report += line.step + line.implementation + "; ";
      CAPTURE(report);
      CHECK(program.executable().report().size() == 1);
      const TensorMap got = program.run(inputs), again = program.run(inputs);
      for (const auto& result : wanted) {
        CAPTURE(result.first);
        const Tensor& y = got.at(result.first);
        CHECK(testing::same_bits(y, again.at(result.first)));
        for (std::int64_t i = 0; i < y.elements(); ++i)  // |d|, |x| < 1/2: one rounding for each term of a sum
          REQUIRE(std::abs(y.at(i) - result.second.at(i)) <= 0x1p-24 * static_cast<double>(row.rows * row.rows));
      }
    }
}

TEST_CASE("products that other work stands between run where they stood") {
  const auto backend = open_or_skip();
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  Graph graph;
  const Value d = graph.input("d", {DType::f32, {9, 6}}), x = graph.input("x", {DType::f32, {9, 5}});
  const Value first = matmul(d, x, {true, false});
  const Value second = matmul(d, broadcast(reshape(reduce_sum(first, {0}), {1, 5}), {9, 5}) + x, {true, false});
  graph.output("first", first);
  graph.output("second", second);
  const TensorMap inputs = numbers_for(graph), wanted = evaluate(graph, *cpu, inputs);
  for (const auto& [name, result] : evaluate(graph, *backend, inputs))
    for (std::int64_t i = 0; i < result.elements(); ++i)
      // sums of 9, 6 and 9 terms, results below 63: 24 roundings, in either of the two
      CHECK(std::abs(result.at(i) - wanted.at(name).at(i)) <= 2 * 24 * 63 * 0x1p-24);
}

// The pointwise node runs in the dispatch of the product, which also stores the copies of gates. The memory plan puts
// the result over one of the copies. The copies are reshapes of slices; without views they are the slices.
TEST_CASE("a node that overwrites the copy of a gate in place keeps its result") {
  const auto backend = open_or_skip();
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  for (const bool reshapes : {true, false}) {
    CAPTURE(reshapes);
    Graph graph;
    const Value product = matmul(graph.input("x", {DType::f32, {6, 3}}), graph.input("w", {DType::f32, {3, 8}}));
    const auto gate = [&](std::int64_t first) {
      const Value columns = slice(product, 1, first, 4);
      return reshapes ? reshape(columns, {12, 2}) : columns;
    };
    const Value y = tanh(gate(0)) * sigmoid(gate(4));
    graph.output("sums", reduce_sum(y, {0}));
    const TensorMap inputs = numbers_for(graph), wanted = evaluate(graph, *cpu, inputs);
    PlanOptions options;
    if (!reshapes) options.without = {"views"};
    Program program(graph, *backend, options);
    const Tensor sums = program.run(inputs).at("sums");
    std::string report;
    for (const ReportLine& line : program.executable().report()) report += line.step + line.implementation + "; ";
    CAPTURE(report);
    CHECK(program.executable().report().size() == 2);
    for (std::int64_t i = 0; i < sums.elements(); ++i)  // 12 terms below 1, each of some ten roundings
      CHECK(std::abs(sums.at(i) - wanted.at("sums").at(i)) <= 0x1p-17);
  }
}

TEST_CASE("values with one element per row stay what they are behind the reductions of the row") {
  const auto backend = open_or_skip();
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  for (const std::int64_t columns : {1, 5})
    for (const auto& f : {tanh, expm1, sigmoid, erf}) {
      CAPTURE(columns);
      Graph graph;
      const Value a = f(graph.input("a", {DType::f32, {3, 1}})), b = graph.input("b", {DType::f32, {3, columns}});
      const Value y = softmax(a + b);
      graph.output("a'", a);
      graph.output("y", a * y);
      const TensorMap inputs = numbers_for(graph), wanted = evaluate(graph, *cpu, inputs);
      for (const auto& result : evaluate(graph, *backend, inputs))
        for (std::int64_t i = 0; i < result.second.elements(); ++i)
          // |a'|, |y| < 1, some ten roundings
          CHECK(std::abs(result.second.at(i) - wanted.at(result.first).at(i)) <= 0x1p-20);
    }
}

}  // namespace unroll::test_vulkan_loops
