// SPDX-License-Identifier: Apache-2.0
// Row groups: which ops join, and that they change no bit of a result, with any number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "backends/registry.h"
#include "core/passes/passes.h"
#include "unroll/autodiff.h"
#include "unroll/model.h"
#include "unroll/ops.h"
#include "unroll/run.h"

namespace unroll {
namespace {

constexpr Type f32(Shape shape) { return {DType::f32, shape}; }

// Stateless scans of the graph, and how many ops lie outside of any.
struct Found {
  std::vector<const Node*> maps;
  int elementwise = 0, reductions = 0;
};
Found find_maps(const Graph& graph) {
  Found found;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::scan && scan_layout(node).n_states == 0) found.maps.push_back(&node);
    found.elementwise += is_elementwise(node.op);
    found.reductions += op_info(node.op).kind == OpKind::reduce;
  }
  return found;
}

TEST_CASE("a softmax over rows becomes one scan over blocks that divide the rows") {
  Graph g;
  const Value x = g.input("x", f32({36, 700}));
  g.output("y", softmax(x));
  const auto graph = map_rows(*fold(*claim(g, *make_backend("cpu", {1}))));
  const Found found = find_maps(*graph);
  REQUIRE(found.maps.size() == 1);
  CHECK(found.reductions == 0);
  CHECK(found.elementwise == 0);
  const ScanLayout layout = scan_layout(*found.maps[0]);
  CHECK(36 % layout.steps == 0);
  CHECK(layout.steps >= 4);
  CHECK(layout.n_sequences == 1);
}

TEST_CASE("what only the group reads joins it; what others read stays readable") {
  Graph g;
  const Value x = g.input("x", f32({16, 512}));
  const Value half = slice(x, 1, 0, 256), other = slice(x, 1, 256, 256);
  const Value centred = half - reduce_sum(half, {1}, true) * (1.0 / 256);
  g.output("y", centred * other);
  g.output("other", other);
  const auto graph = map_rows(g);
  const Found found = find_maps(*graph);
  REQUIRE(found.maps.size() == 1);
  CHECK(found.elementwise == 0);
  // `half` inside, `other` outside or a result of the group: either way both outputs keep their names and types.
  CHECK(graph->outputs().size() == 2);
  CHECK(graph->type(graph->outputs()[1].value) == f32({16, 256}));
}

TEST_CASE("reductions over other axes, few rows and narrow rows stay as they are") {
  const auto maps = [](Shape shape, Ints axes) {
    Graph g;
    const Value x = g.input("x", f32(shape));
    g.output("y", x - reduce_sum(x * x, axes, true));
    return find_maps(*map_rows(g)).maps.size();
  };
  CHECK(maps({64, 512}, {1}) == 1);
  CHECK(maps({8, 8, 512}, {2}) == 1);
  CHECK(maps({64, 512}, {0}) == 0);
  CHECK(maps({64, 512}, {0, 1}) == 0);
  CHECK(maps({3, 512}, {1}) == 0);   // one row each for few threads
  CHECK(maps({64, 3}, {1}) == 0);    // 768 bytes in all
  CHECK(maps({67, 16}, {1}) == 0);   // a prime number of short rows
}

TEST_CASE("a group never reads what it makes through another op") {
  Graph g;
  const Value x = g.input("x", f32({32, 32})), w = g.input("w", f32({32, 32}));
  const Value a = x - reduce_sum(x, {1}, true);
  const Value b = matmul(a, w);
  g.output("y", (b - reduce_sum(b, {1}, true)) * a);
  const auto graph = map_rows(g);
  verify(*graph);
  CHECK(find_maps(*graph).maps.size() == 2);
}

struct Trained {
  std::string cell;
  std::int64_t steps, batch, input, hidden;
};
std::shared_ptr<Graph> build(const Trained& t, TensorMap& inputs) {
  auto graph = std::make_shared<Graph>();
  Scope scope(*graph);
  const Value x = graph->input("x", f32({t.steps, t.batch, t.input}));
  RecurrentModelOptions options;
  options.cell = t.cell;
  options.hidden = t.hidden;
  const Value loss = mean(square(recurrent_model(scope, x, options).y));
  std::vector<Value> wrt{x};
  for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph->find_input(p.name));
  const auto gradients = differentiate(loss, wrt);
  graph->output("loss", loss);
  for (std::size_t i = 0; i < wrt.size(); ++i) graph->output("d" + std::to_string(i), gradients[i]);
  inputs = initialize(scope.parameters(), 1);
  const std::vector<ParameterSpec> x_spec{{"x", x.type(), Initializer::uniform(1)}};
  inputs.merge(initialize(x_spec, 2));
  return graph;
}

TEST_CASE("row groups change no bit of results and gradients, for any number of threads") {
  // Batches that blocks divide evenly and ones that they do not; a width beyond one block.
  for (const Trained& t : {Trained{"lnlstm", 3, 8, 20, 64}, Trained{"lnlstm", 5, 6, 7, 96},
                           Trained{"ligru", 4, 31, 12, 257}, Trained{"lnlstm", 2, 4, 3, 700}}) {
    CAPTURE(t.cell);
    CAPTURE(t.hidden);
    TensorMap inputs;
    const auto graph = build(t, inputs);
    const auto plain = make_backend("cpu", {1});
    CHECK(print_graph(*lower(*graph, *plain)).find("states=0") != std::string::npos);
    const TensorMap wanted = evaluate(*graph, *plain, inputs, {.without = {"row_tiling"}});
    for (int threads = 1; threads <= 4; ++threads) {
      CAPTURE(threads);
      const auto backend = make_backend("cpu", {threads});
      const TensorMap got = evaluate(*graph, *backend, inputs);
      for (const auto& [key, tensor] : wanted) {
        const std::string& name = key;  // clang 14 captures no structured binding
        CAPTURE(name);
        CHECK(std::ranges::equal(got.at(name).bytes(), tensor.bytes()));
      }
    }
  }
}

}  // namespace
}  // namespace unroll
