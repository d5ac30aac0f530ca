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

#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/product_groups.h"
#include "unroll/passes/run.h"

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
      for (const auto& [role, gate] : group.operands)
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

// ---- gates

constexpr std::int64_t G = 4, H = N / G;

// Gate k of a product [M, N] in G gates.
Value gate(const Value& product, std::int64_t k) {
  const int last = product.rank() - 1;
  const std::int64_t units = product.shape()[last] / G;
  return slice(product, last, k * units, units);
}
Value lstm_gates(const Value& product, const Value& c) {
  return sigmoid(gate(product, 0)) * tanh(gate(product, 1)) + sigmoid(gate(product, 2)) * c + gate(product, 3);
}

TEST_CASE("gates of a product that one node reads are its group: their number, their units, the role of each operand") {
  Graph graph;
  const Operands o = operands_in(graph);
  const Value c = graph.input("c", {DType::f32, {M, H}}), bias = graph.input("gate bias", {DType::f32, {H}});
  graph.output("y", lstm_gates(matmul(o.a, o.w), c) * o.row + bias);
  const auto planned = plan(graph, *make_backend("cpu"));
  const auto groups = product_groups(*planned->graph);
  REQUIRE(groups.size() == 1);
  const ProductGroup& group = groups[0];
  CHECK(group.m == M);
  CHECK(group.n == N);
  CHECK(group.gates == G);
  CHECK(group.units == H);
  std::vector<std::int64_t> gates;
  std::vector<Role> others;
  for (const auto& [role, gate] : group.operands)
    if (role == Role::product) gates.push_back(gate);
    else others.push_back(role);
  std::sort(gates.begin(), gates.end());
  std::sort(others.begin(), others.end());
  CHECK(gates == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(others == std::vector{Role::bias, Role::row, Role::residual});
  const std::string line = describe(group, *planned->graph);
  CHECK(line.find(" matmul [6,40], 4 gates of 10 units + %") != std::string::npos);
  for (const char* name : {"gate 0", "gate 1", "gate 2", "gate 3", "bias", "value per row", "residual"})
    CHECK(line.find(name) != std::string::npos);
}

TEST_CASE("the step of a built-in cell is one group") {
  struct Row {
    const char* cell;
    std::int64_t gates;
  };
  for (const Row& row : {Row{"lstm", 4}, Row{"gru", 3}}) {
    CAPTURE(row.cell);
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value x = graph.input("x", {DType::f32, {7, 5, 3}});
    graph.output("y", recurrent_model(scope, x, {.cell = row.cell, .hidden = 16}).y);
    const auto planned = plan(graph, *make_backend("cpu"));
    for (const auto& body : planned->bodies) {
      if (!body) continue;
      const auto groups = product_groups(*body->graph);
      REQUIRE(groups.size() == 1);
      CHECK(groups[0].gates == row.gates);
      CHECK(groups[0].units == 16);
    }
  }
}

// The gates of the first product of the planned graph.
ProductGates gates_of(const std::function<void(const Operands&, const Value& product)>& build) {
  Graph graph;
  const Operands o = operands_in(graph);
  build(o, matmul(o.a, o.w));
  const auto planned = plan(graph, *make_backend("cpu"), {.without = {"sink_slices"}});
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(planned->graph->nodes().size()); ++id)
    if (planned->graph->node(id).op == Op::matmul) return product_gates(*planned->graph, id);
  return {};
}

TEST_CASE("gates are found behind whatever keeps their order") {
  const auto by_halves = [](const Value& product, const Shape& shape, int axis) {
    const Value p = reshape(product, shape);
    const std::int64_t half = shape[axis] / 2;
    return std::pair(slice(p, axis, 0, half), slice(p, axis, half, half));
  };
  struct Row {
    Shape shape;
    int axis;
  };
  for (const Row& row : {Row{{M, N}, 1}, Row{{M, 2, N / 2}, 1}, Row{{2, 3, 1, N}, 3}, Row{{M, 4, N / 4}, 1}}) {
    CAPTURE(row.shape.text());
    const ProductGates gates = gates_of([&](const Operands& o, const Value& product) {
      const auto [a, b] = by_halves(product, row.shape, row.axis);
      o.graph.output("y", reshape(tanh(a), {M, N / 2}) * reshape(sigmoid(b), {M, N / 2}));
    });
    CHECK(gates.gates == 2);
    CHECK(gates.units == N / 2);
    CHECK(gates.reads.size() == 2);
  }
}

TEST_CASE("ranges that are no gates leave one gate: unequal ones, rows, transposed ones, parts beside the whole") {
  using Reader = std::function<void(const Operands&, const Value& product)>;
  const std::pair<const char*, Reader> readers[] = {
      {"unequal", [](const Operands& o, const Value& p) {
         o.graph.output("y", tanh(slice(p, 1, 0, 10)));
         o.graph.output("z", tanh(slice(p, 1, 10, 30)));
       }},
      {"shifted", [](const Operands& o, const Value& p) { o.graph.output("y", tanh(slice(p, 1, 5, 10))); }},
      {"no divisor", [](const Operands& o, const Value& p) { o.graph.output("y", tanh(slice(p, 1, 0, 12))); }},
      {"rows", [](const Operands& o, const Value& p) { o.graph.output("y", tanh(slice(p, 0, 0, 3))); }},
      {"transposed", [](const Operands& o, const Value& p) {
         o.graph.output("y", tanh(slice(transpose(p, {1, 0}), 0, 0, 20)));
       }},
      {"beside", [](const Operands& o, const Value& p) {
         o.graph.output("y", tanh(slice(p, 1, 0, 20)));
         o.graph.output("p", p);
       }}};
  for (const auto& each : readers) {
    CAPTURE(each.first);
    const ProductGates gates = gates_of(each.second);
    CHECK(gates.gates == 1);
    CHECK(gates.units == N);
  }
}

TEST_CASE("gates that two nodes read are no group, and a gate that is a named output is none either") {
  CHECK(groups_of([](const Operands& o) {
          const Value p = matmul(o.a, o.w);
          o.graph.output("y", tanh(gate(p, 0)) + gate(p, 1));
          o.graph.output("sum", reduce_sum(gate(p, 2), {0}));
        }).empty());
  CHECK(groups_of([](const Operands& o) {
          const Value p = matmul(o.a, o.w);
          o.graph.output("y", tanh(gate(p, 0)) + gate(p, 1));
          o.graph.output("p", gate(p, 2));
        }).empty());
}

// ---- cpu computes both in one call

using Build = std::function<Value(const Operands&, const Value& product)>;

TensorMap uniform_inputs(const Graph& graph) {
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
  const Tensor y = program.run(uniform_inputs(graph)).at("y");
  Computed computed{{y.bytes().begin(), y.bytes().end()}};
  for (const ReportLine& line : program.executable().report())
    computed.joined += line.implementation.find("on its blocks") != std::string::npos;
  return computed;
}

TEST_CASE("a product and its epilogue in one call have the bits of two calls, in every shape and on every pool") {
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
  for (const auto& epilogue : epilogues)
    for (const auto& shape : shapes) {
      const Build& build = epilogue.second;
      const std::int64_t m = shape[0], n = shape[1], k = shape[2];
      CAPTURE(epilogue.first);
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

TEST_CASE("gates and their epilogue in one call have the bits of two calls, in every shape and on every pool") {
  const Build cell = [](const Operands& o, const Value& p) {
    return lstm_gates(p, slice(o.full, 1, 0, o.full.shape()[1] / G) * o.row);
  };
  const std::pair<std::string, Build> epilogues[] = {
      {"a cell", cell},
      {"16 bits", [](const Operands&, const Value& p) { return cast(gate(p, 3) * gate(p, 1), DType::bf16); }},
      {"axes apart", [](const Operands& o, const Value& p) {
         const std::int64_t m = p.shape()[0], units = p.shape()[1] / G;
         const Value gates = reshape(p + o.bias, {m, G, units});
         return reshape(slice(gates, 1, 2, 1), {m, units}) - reshape(slice(gates, 1, 0, 1), {m, units});
       }}};
  const std::array<std::int64_t, 3> shapes[] = {{1, 40, 7},     {3, 32, 64},  {4, 132, 300}, {70, 4, 9},
                                                {200, 48, 20},  {130, 1100, 9}, {500, 72, 600}, {17, 8, 3},
                                                {260, 512, 130}};
  // How many of them are joined depends on the blocks, and so on the processor.
  for (const auto& epilogue : epilogues) {
    int joined = 0;
    for (const auto& shape : shapes) {
      const Build& build = epilogue.second;
      const std::int64_t m = shape[0], n = shape[1], k = shape[2];
      CAPTURE(epilogue.first);
      INFO(m, " x ", n, " x ", k);
      const Computed apart = compute(build, m, n, k, 1, /*apart=*/true);
      CHECK(apart.joined == 0);
      for (const int threads : {1, 2, 3})
        for (const char* without : {"", "in_place"}) {
          CAPTURE(threads);
          CAPTURE(without);
          const Computed one = compute(build, m, n, k, threads, false, *without ? Lines{without} : Lines{});
          CHECK(one.bytes == apart.bytes);
          joined += one.joined;
        }
    }
    CHECK(joined > 9);
  }
}

TEST_CASE("gates of a stored column times a matrix have the bits of two calls on every pool") {
  const auto compute_y = [](Program& program, const Graph& graph) {
    const Tensor y = program.run(uniform_inputs(graph)).at("y");
    return std::vector<std::byte>(y.bytes().begin(), y.bytes().end());
  };
  for (const std::int64_t units : {1, 6, 40}) {
    CAPTURE(units);
    std::vector<std::byte> wanted;
    for (const int threads : {0, 1, 2, 3}) {  // 0: one, apart
      CAPTURE(threads);
      Graph graph;
      const Value column = graph.input("a", {DType::f32, {5, 1}}), b = graph.input("b", {DType::f32, {G * units, 5}});
      const Value product = matmul(column * column, b, {.a = true, .b = true});
      graph.output("y", gate(product, 3) * gate(product, 1));
      if (threads == 0) graph.output("product", product);
      const auto backend = make_backend("cpu", {.threads = std::max(threads, 1)});
      Program program(graph, *backend);
      if (threads == 0) wanted = compute_y(program, graph);
      for (int run = 0; run < 50; ++run) CHECK(compute_y(program, graph) == wanted);
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
      const Tensor y = program.run(uniform_inputs(graph)).at("y");
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
