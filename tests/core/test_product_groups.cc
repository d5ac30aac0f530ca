// SPDX-License-Identifier: Apache-2.0
// Products with the elementwise node behind them: which are found, and that `cpu` computes the same bits in one call.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "unroll/ops.h"
#include "unroll/product_groups.h"
#include "unroll/run.h"

namespace unroll {
namespace {

using Role = ProductGroup::Role;
constexpr std::int64_t M = 6, N = 40, K = 5;

struct Operands {
  Graph& graph;
  Value a, w, bias, row, full;
};
Operands operands_in(Graph& graph, std::int64_t m = M, std::int64_t n = N, std::int64_t k = K) {
  const auto input = [&](const char* name, Shape shape) { return graph.input(name, {DType::f32, std::move(shape)}); };
  return {graph,          input("a", {m, k}),   input("w", {k, n}),
          input("bias", {n}), input("row", {m, 1}), input("full", {m, n})};
}

// The groups of the plan, described.
std::vector<std::string> groups_of(const std::function<void(const Operands&)>& build) {
  Graph graph;
  build(operands_in(graph));
  const auto planned = plan(graph, *make_backend("cpu", {.threads = 2}));
  std::vector<std::string> lines;
  for (const ProductGroup& group : product_groups(*planned->graph)) {
    const std::string line = describe(group, *planned->graph);
    lines.push_back(line.substr(line.find(": ") + 2));
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST_CASE("an epilogue is what alone reads the product: its operations, and what else it reads") {
  CHECK(groups_of([](const Operands& o) { o.graph.output("y", tanh(matmul(o.a, o.w) + o.bias)); }) ==
        Lines{"add, tanh; bias"});
  CHECK(groups_of([](const Operands& o) { o.graph.output("y", matmul(o.a, o.w) + o.full); }) == Lines{"add; residual"});
  CHECK(groups_of([](const Operands& o) { o.graph.output("y", matmul(o.a, o.w) * o.row); }) ==
        Lines{"mul; value per row"});
  CHECK(groups_of([](const Operands& o) { o.graph.output("y", cast(tanh(matmul(o.a, o.w)), DType::bf16)); }) ==
        Lines{"tanh, cast; to bf16"});
}

TEST_CASE("a product that anything else reads, or a named output, has no epilogue") {
  CHECK(groups_of([](const Operands& o) {
          const Value p = matmul(o.a, o.w);
          o.graph.output("y", tanh(p));
          o.graph.output("sum", reduce_sum(p, {0}));
        }).empty());
  CHECK(groups_of([](const Operands& o) {
          const Value p = matmul(o.a, o.w);
          o.graph.output("p", p);
          o.graph.output("y", tanh(p));
        }).empty());
}

TEST_CASE("of two products that are added, the later one takes the other as a residual") {
  const Lines lines = groups_of([](const Operands& o) {
    o.graph.output("y", sigmoid(matmul(o.a, o.w) + matmul(o.full, o.graph.input("v", {DType::f32, {N, N}})) + o.bias));
  });
  CHECK(lines == Lines{"add, add, sigmoid; residual, bias"});
}

TEST_CASE("operands keep their roles where the product is read in another shape") {
  const auto groups = [](Shape shape, Shape operand) {
    Graph graph;
    const Operands o = operands_in(graph);
    graph.output("y", reshape(matmul(o.a, o.w), shape) + graph.input("x", {DType::f32, std::move(operand)}));
    std::vector<Role> roles;
    for (const ProductGroup& group : product_groups(*plan(graph, *make_backend("cpu"))->graph))
      for (const Role role : group.roles)
        if (role != Role::product) roles.push_back(role);
    return roles;
  };
  CHECK(groups({2, 3, N}, {N}) == std::vector{Role::bias});
  CHECK(groups({2, 3, 4, 10}, {4, 10}) == std::vector{Role::bias});
  CHECK(groups({2, 3, N}, {2, 3, 1}) == std::vector{Role::row});
  CHECK(groups({2, 3, N}, {2, 3, N}) == std::vector{Role::residual});
  CHECK(groups({2, 3, N}, {1, 1}) == std::vector{Role::scalar});
  CHECK(groups({2, 3, N}, {3, N}) == std::vector{Role::other});
  CHECK(groups({2, 3, 4, 10}, {10}) == std::vector{Role::other});
}

// ---- cpu computes both in one call

using Build = std::function<Value(const Operands&, const Value& product)>;

TensorMap random_inputs(const Graph& graph) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  TensorMap inputs;
  for (const NamedValue& input : graph.inputs()) {
    const Type& type = graph.type(input.value);
    Tensor x(type.dtype, type.shape);
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, uniform(random));
    inputs.emplace(input.name, std::move(x));
  }
  return inputs;
}

// y, and how many calls compute a product and more. `apart`: the product is an output too, so nothing joins it.
struct Computed {
  std::vector<std::byte> bytes;
  int joined = 0;
};
Computed compute(const Build& build, std::int64_t m, std::int64_t n, std::int64_t k, int threads, bool apart,
                 std::vector<std::string> without = {}) {
  Graph graph;
  const Operands o = operands_in(graph, m, n, k);
  const Value product = matmul(o.a * o.a, o.w);  // of memory that is free again behind it
  graph.output("y", build(o, product));
  if (apart) graph.output("product", product);
  const auto backend = make_backend("cpu", {.threads = threads});
  Program program(graph, *backend, {.without = std::move(without)});
  const Tensor y = program.run(random_inputs(graph)).at("y");
  Computed computed{{y.bytes().begin(), y.bytes().end()}};
  for (const ReportLine& line : program.executable().report())
    computed.joined += line.implementation.find("on its blocks") != std::string::npos;
  return computed;
}

TEST_CASE("a product and its epilogue in one call have the bits of two calls, in every shape and on every team") {
  const std::pair<std::string, Build> epilogues[] = {
      {"bias and tanh", [](const Operands& o, const Value& p) { return tanh(p + o.bias); }},
      {"values per row, residual", [](const Operands& o, const Value& p) { return p * o.row - o.full; }},
      {"16 bits", [](const Operands& o, const Value& p) { return cast(p + o.bias, DType::bf16); }},
      {"another shape", [](const Operands& o, const Value& p) {
         const Shape& s = p.shape();
         return reshape(relu(reshape(p + o.bias, {s[0], 1, s[1]})), s);
       }}};
  const std::array<std::int64_t, 3> shapes[] = {{1, 40, 7},    {3, 33, 64},   {4, 130, 300}, {70, 1, 9},  {1, 1, 1},
                                                {200, 50, 20}, {130, 1100, 9}, {500, 70, 600}, {17, 2, 3}};
  for (const auto& [name, build] : epilogues)
    for (const auto& [m, n, k] : shapes) {
      CAPTURE(name);
      INFO(m, " x ", n, " x ", k);
      const Computed apart = compute(build, m, n, k, 1, /*apart=*/true);
      CHECK(apart.joined == 0);
      for (const int threads : {1, 2, 3})
        for (const char* without : {"", "in_place"}) {
          CAPTURE(threads);
          CAPTURE(without);
          const Computed one = compute(build, m, n, k, threads, false, *without ? Lines{without} : Lines{});
          CHECK(one.bytes == apart.bytes);
          if (n > 1 && !*without) CHECK(one.joined == 1);
        }
    }
}

TEST_CASE("a product by packed constants has its epilogue too, in every format of weights") {
  for (const WeightFormat format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8}) {
    const auto run = [&](bool apart, int threads) {
      Graph graph;
      const Operands o = operands_in(graph, 3, 100, 70);
      Tensor weights(DType::f32, {70, 100});
      for (std::int64_t i = 0; i < weights.elements(); ++i) weights.set(i, 0.01 * static_cast<double>(i % 83 - 40));
      const Value product = matmul(o.a, constant(graph, std::move(weights)));
      graph.output("y", sigmoid(product + o.bias));
      if (apart) graph.output("product", product);
      const auto backend = make_backend("cpu", {.threads = threads});
      Program program(graph, *backend, {.weights = format});
      const Tensor y = program.run(random_inputs(graph)).at("y");
      const auto lines = program.executable().report();
      const bool joined = std::any_of(lines.begin(), lines.end(), [](const ReportLine& line) {
        return line.implementation.find("packed once") != std::string::npos &&
               line.implementation.find("on its blocks") != std::string::npos;
      });
      CHECK(joined != apart);
      return std::vector<std::byte>(y.bytes().begin(), y.bytes().end());
    };
    const auto wanted = run(true, 1);
    for (const int threads : {1, 2, 3}) CHECK(run(false, threads) == wanted);
  }
}

}  // namespace
}  // namespace unroll
