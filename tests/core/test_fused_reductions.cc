// SPDX-License-Identifier: Apache-2.0
// Fused reductions: which ops join, and that they change no bit of a result, with any number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "backends/registry.h"
#include "core/passes/passes.h"
#include "tests/core/small_graphs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll {
namespace {

using testing::f32;

const PlanOptions k_without_sums{.without = {"sum_rows"}};  // which add up in another order

TensorMap random_inputs(const Graph& g) {
  TensorMap inputs;
  for (const NamedValue& input : g.inputs()) {
    const std::vector<ParameterSpec> spec{{input.name, g.type(input.value), Initializer::uniform(2)}};
    inputs.merge(initialize(spec, 3));
  }
  return inputs;
}

// Fused reductions of the graph, and how many ops lie outside of any.
struct Found {
  std::vector<const Node*> groups;
  int elementwise = 0, reductions = 0;
};
Found find_groups(const Graph& graph) {
  Found found;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::fused_reduction) found.groups.push_back(&node);
    found.elementwise += is_elementwise(node.op);
    found.reductions += op_info(node.op).kind == OpKind::reduce;
  }
  return found;
}

TEST_CASE("a softmax over rows becomes one fused reduction") {
  Graph g;
  const Value x = g.input("x", f32({36, 700}));
  g.output("y", softmax(x));
  const auto graph = fused_reductions(*fold(*claim(g, *make_backend("cpu", {1}))));
  const Found found = find_groups(*graph);
  REQUIRE(found.groups.size() == 1);
  CHECK(found.reductions == 0);
  CHECK(found.elementwise == 0);
  CHECK(found.groups[0]->inputs.size() == 1);
  CHECK(found.groups[0]->outputs == std::vector<Type>{f32({36, 700})});
}

TEST_CASE("what only the group reads joins it; what others read stays readable") {
  Graph g;
  const Value x = g.input("x", f32({16, 512}));
  const Value half = slice(x, 1, 0, 256), other = slice(x, 1, 256, 256);
  const Value centered = half - reduce_sum(half, {1}, true) * (1.0 / 256);
  g.output("y", centered * other);
  g.output("other", other);
  const auto graph = fused_reductions(g);
  const Found found = find_groups(*graph);
  REQUIRE(found.groups.size() == 1);
  CHECK(found.elementwise == 0);
  // `half` inside, `other` outside or a result of the group: either way both outputs keep their names and types.
  CHECK(graph->outputs().size() == 2);
  CHECK(graph->type(graph->outputs()[1].value) == f32({16, 256}));
}

TEST_CASE("a group that only another one reads joins it, also where a product comes between their other operands") {
  const auto groups = [](bool read_by_product) {
    Graph g;
    const Value x = g.input("x", f32({32, 16})), z = g.input("z", f32({32, 16})), w = g.input("w", f32({16, 16}));
    const Value a = x - reduce_sum(x, {1}, true);
    const Value b = matmul(read_by_product ? a : tanh(z), w);
    g.output("y", (b - reduce_sum(b, {1}, true)) * a);
    g.output("a", a);
    const auto grouped = fused_reductions(g);
    verify(*grouped);
    return find_groups(*grouped).groups.size();
  };
  CHECK(groups(false) == 1);
  CHECK(groups(true) == 2);
}

TEST_CASE("reductions over other axes and of few rows stay as they are") {
  const auto groups = [](Shape shape, Ints axes) {
    Graph g;
    const Value x = g.input("x", f32(shape));
    g.output("y", x - reduce_sum(x * x, axes, true));
    return find_groups(*fused_reductions(g)).groups.size();
  };
  CHECK(groups({64, 512}, {1}) == 1);
  CHECK(groups({8, 8, 512}, {2}) == 1);
  CHECK(groups({64, 512}, {0}) == 0);
  CHECK(groups({64, 512}, {0, 1}) == 0);
  CHECK(groups({3, 512}, {1}) == 0);   // one row each for few threads
  CHECK(groups({67, 3}, {1}) == 1);
}

TEST_CASE("rows without columns join no group, and their sums are zero") {
  Graph g;
  const Value x = g.input("x", f32({5, 1})), none = g.input("none", f32({5, 0})), all = x + none;
  g.output("y", x - reduce_sum(all, {1}, true));
  CHECK(find_groups(*fused_reductions(g)).groups.empty());
  const Tensor ones = Tensor::filled({DType::f32, {5, 1}}, 1);
  const TensorMap got =
      evaluate(g, *make_backend("cpu", {1}), {{"x", ones}, {"none", Tensor(Type{DType::f32, {5, 0}})}});
  CHECK(std::ranges::equal(got.at("y").bytes(), ones.bytes()));
}

TEST_CASE("a group never reads what it makes through another op") {
  Graph g;
  const Value x = g.input("x", f32({32, 32})), w = g.input("w", f32({32, 32}));
  const Value a = x - reduce_sum(x, {1}, true);
  const Value b = matmul(a, w);
  g.output("y", (b - reduce_sum(b, {1}, true)) * a);
  const auto graph = fused_reductions(g);
  verify(*graph);
  CHECK(find_groups(*graph).groups.size() == 2);
}

// Additive attention and its gradient: scores of [B,S] positions by a query for each sentence.
struct Attention {
  Graph g;
  Attention(std::int64_t B, std::int64_t S, std::int64_t A) {
    const Value keys = g.input("keys", f32({B, 1, S, A})), query = g.input("query", f32({B, 1, 1, A}));
    const Value v = g.input("v", f32({A})), d = g.input("d", f32({B, 1, S, 1}));
    const Value score = reduce_sum(tanh(keys + query) * v, {3}, true);
    const std::vector<Value> scores{score}, cotangents{d}, wrt{keys, query, v};
    const auto gradients = differentiate(scores, cotangents, wrt);
    g.output("score", score);
    for (std::size_t i = 0; i < wrt.size(); ++i) g.output("d" + std::to_string(i), gradients[i]);
  }
};

TEST_CASE("rows of an operand repeat along its axes of size 1: attention has no intermediate of all positions") {
  for (const std::int64_t B : {1, 3}) {
    CAPTURE(B);
    const Attention attention(B, 96, 700);
    const auto cpu = make_backend("cpu", {1});
    const auto graph = lower(attention.g, *cpu);
    std::size_t large = 0;  // results of [B,S,A]
    for (const Node& node : graph->nodes())
      for (const Type& type : node.outputs) large += node.op != Op::input && type.shape.elements() >= B * 96 * 700;
    CHECK(large == 1);  // the gradient of the keys
    CHECK(find_groups(*graph).groups.size() == 1);
  }
}

TEST_CASE("attention by rows has the results of single ops, for any number of threads") {
  for (const std::int64_t B : {1, 2, 5}) {
    CAPTURE(B);
    const Attention attention(B, 96, 700);
    const TensorMap inputs = random_inputs(attention.g);
    const TensorMap plain =
        evaluate(attention.g, *make_backend("cpu", {1}), inputs, {.without = {"fused_reductions", "raise_reshapes"}});
    const TensorMap wanted = evaluate(attention.g, *make_backend("cpu", {1}), inputs);
    for (const auto& output : plain) {
      CAPTURE(output.first);
      double largest = 0, off = 0;
      for (std::int64_t i = 0; i < output.second.elements(); ++i) {
        largest = std::max(largest, std::abs(output.second.at(i)));
        off = std::max(off, std::abs(output.second.at(i) - wanted.at(output.first).at(i)));
      }
      CHECK(off <= 0x1p-23 * 700 * largest);  // sums of at most 700 terms in another order
    }
    for (const int threads : {2, 3, 4}) {
      const TensorMap got = evaluate(attention.g, *make_backend("cpu", {threads}), inputs);
      for (const auto& output : wanted)
        CHECK(std::ranges::equal(got.at(output.first).bytes(), output.second.bytes()));
    }
  }
}

Value row_sum(Value x) { return reduce_sum(x, {x.rank() - 1}, true); }
Value normalized(Value x) {
  const Value centered = x - row_sum(x) / static_cast<double>(x.shape()[x.rank() - 1]);
  return centered / sqrt(row_sum(square(centered)) + 1e-5);
}

// Operands and results that do not lie row by row, parts of rows, values of several dtypes, rows of one column, rows
// longer than a piece of a sum, and more than one axis of rows.
struct Layout {
  std::string name;
  void (*build)(Graph&);
};
const Layout k_layouts[] = {
    {"a transposed operand",
     [](Graph& g) { g.output("y", normalized(transpose(g.input("x", f32({33, 9})), {1, 0}))); }},
    {"slices of rows, and a row of three parts of which two are the same",
     [](Graph& g) {
       const Value x = g.input("x", f32({9, 100})), y = normalized(slice(x, 1, 3, 40)), z = tanh(y);
       const Value parts[] = {z, slice(y, 1, 1, 7), z};
       const Value joined = concat(parts, 1);
       g.output("y", joined * row_sum(slice(joined, 1, 20, 30)));
       g.output("column", slice(joined, 1, 5, 1) * row_sum(y));
     }},
    {"rows between zeros",
     [](Graph& g) {
       const Value x = g.input("x", f32({9, 20})), s = row_sum(x);
       g.output("y", pad(x * s, 1, 1, 2) - pad(s, 1, 0, 22));
     }},
    {"one value per row from outside, in every place of a pair",
     [](Graph& g) {
       const Value x = g.input("x", f32({17, 50})), s = slice(g.input("s", f32({17, 4})), 1, 2, 1);
       const Value w = g.input("w", f32({50})), y = normalized(x);
       g.output("a", (y * s + w) - (s - y) * s);
       g.output("b", (s + y) * (w - s) + s * w);
       g.output("c", maximum(y, s) + minimum(s, y) / s);
       g.output("d", select(less(s, y), y, s));
     }},
    {"two axes of rows, the inner one strided",
     [](Graph& g) {
       const Value x = transpose(g.input("x", f32({6, 5, 40})), {1, 0, 2});
       g.output("y", normalized(x) + broadcast(g.input("w", f32({40})), x.shape()));
       g.output("sum", row_sum(neg(x)));
     }},
    {"one element for all rows and columns, first in a product that is summed",
     [](Graph& g) {
       const Value x = g.input("x", f32({9, 20})), one = broadcast(g.input("one", f32({1, 1})), x.shape());
       g.output("y", x * row_sum(one * x) + one);
     }},
    {"rows of one column", [](Graph& g) { g.output("y", normalized(g.input("x", f32({12, 1}))) * 2.0); }},
    {"rows longer than a piece of a sum",
     [](Graph& g) { g.output("y", softmax(g.input("x", f32({4, 20001})))); }},
    {"f64, whole numbers and masks",
     [](Graph& g) {
       const Value x = cast(g.input("x", f32({10, 70})), DType::f64), y = normalized(x);
       const Value n = cast(less(scalar(g, DType::f64, 0), y), DType::i32);
       g.output("y", y);
       g.output("positive", n - row_sum(n));
       g.output("largest", reduce_max(n + 3, {1}, true));
       g.output("above", less(y, row_sum(y)));
     }},
};

TEST_CASE("fused reductions have the bits of the single ops wherever their operands lie") {
  for (const Layout& layout : k_layouts) {
    CAPTURE(layout.name);
    Graph g;
    layout.build(g);
    const TensorMap inputs = random_inputs(g);
    const auto plain = make_backend("cpu", {1});
    CHECK(print_graph(*lower(g, *plain)).find("fused_reduction") != std::string::npos);
    const TensorMap wanted = evaluate(g, *plain, inputs, {.without = {"fused_reductions"}});
    for (const int threads : {1, 3}) {
      CAPTURE(threads);
      const TensorMap got = evaluate(g, *make_backend("cpu", {threads}), inputs, k_without_sums);
      for (const auto& [key, tensor] : wanted) {
        const std::string& name = key;  // clang 14 captures no structured binding
        CAPTURE(name);
        CHECK(std::ranges::equal(got.at(name).bytes(), tensor.bytes()));
      }
    }
  }
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

TEST_CASE("fused reductions change no bit of results and gradients, for any number of threads") {
  // Batches that blocks divide evenly and ones that they do not; a width beyond one block.
  for (const Trained& t : {Trained{"lnlstm", 3, 8, 20, 64}, Trained{"lnlstm", 5, 6, 7, 96},
                           Trained{"ligru", 4, 31, 12, 257}, Trained{"lnlstm", 2, 4, 3, 700}}) {
    CAPTURE(t.cell);
    CAPTURE(t.hidden);
    TensorMap inputs;
    const auto graph = build(t, inputs);
    const auto plain = make_backend("cpu", {1});
    CHECK(print_graph(*lower(*graph, *plain)).find("fused_reduction") != std::string::npos);
    const TensorMap wanted = evaluate(*graph, *plain, inputs, {.without = {"fused_reductions"}});
    for (int threads = 1; threads <= 4; ++threads) {
      CAPTURE(threads);
      const auto backend = make_backend("cpu", {threads});
      const TensorMap got = evaluate(*graph, *backend, inputs, k_without_sums);
      for (const auto& [key, tensor] : wanted) {
        const std::string& name = key;  // clang 14 captures no structured binding
        CAPTURE(name);
        CHECK(std::ranges::equal(got.at(name).bytes(), tensor.bytes()));
      }
    }
  }
}

// Products whose rows a group reads for the last time: what it makes of them lies in their place.
const Layout k_dying_rows[] = {
    {"each element is read last where it is written",
     [](Graph& g) {
       const Value h = matmul(g.input("x", f32({9, 4})), g.input("w", f32({4, 100})));
       g.output("y", matmul((h + row_sum(h)) * 2.0, g.input("v", f32({100, 3}))));
     }},
    {"the rows are read again after one of two results is written",
     [](Graph& g) {
       const Value h = matmul(g.input("x", f32({9, 4})), g.input("w", f32({4, 100}))), v = g.input("v", f32({100, 3}));
       const Value a = h * row_sum(h);
       g.output("a", matmul(a, v));
       g.output("b", matmul(exp(h) - a * h, v));
     }},
    {"halves change places",
     [](Graph& g) {
       const Value h = matmul(g.input("x", f32({9, 4})), g.input("w", f32({4, 100})));
       const Value parts[] = {tanh(slice(h, 1, 50, 50)), slice(h, 1, 0, 50) * 2.0};
       const Value y = concat(parts, 1);
       g.output("y", matmul(y * row_sum(h), g.input("v", f32({100, 3}))));
     }},
    {"a column of the rows scales all of them",
     [](Graph& g) {
       const Value h = matmul(g.input("x", f32({9, 4})), g.input("w", f32({4, 100})));
       g.output("y", matmul(h * slice(h, 1, 7, 1) - row_sum(h), g.input("v", f32({100, 3}))));
     }},
    {"rows as wide as a vocabulary",
     [](Graph& g) {
       const Value h = matmul(g.input("x", f32({8, 4})), g.input("w", f32({4, 5000})));
       const Value top = g.input("top", f32({8, 1}));
       const Value scale = exp(top), y = exp(h - scale) * scale;
       g.output("y", matmul(y, g.input("v", f32({5000, 3}))));
       g.output("sum", reduce_sum(y, {0}));
     }},
};

TEST_CASE("results of fused reductions lie in the place of rows that nothing reads later, with the same bits") {
  for (const Layout& layout : k_dying_rows) {
    CAPTURE(layout.name);
    Graph g;
    layout.build(g);
    const TensorMap inputs = random_inputs(g);
    const auto one = make_backend("cpu", {1});
    const auto arena = [&](const PlanOptions& options) { return plan(g, *one, options)->arena_bytes; };
    CHECK(arena({}) < arena({.without = {"in_place"}}));
    const TensorMap wanted = evaluate(g, *one, inputs, {.without = {"in_place"}});
    for (int threads = 1; threads <= 4; ++threads) {
      CAPTURE(threads);
      const TensorMap got = evaluate(g, *make_backend("cpu", {threads}), inputs);
      for (const auto& [key, tensor] : wanted) {
        const std::string& name = key;  // clang 14 captures no structured binding
        CAPTURE(name);
        CHECK(std::ranges::equal(got.at(name).bytes(), tensor.bytes()));
      }
    }
  }
}

TEST_CASE("rows as wide as a vocabulary, in blocks of columns, have the same bits") {
  // Values of a row are read by all blocks; the last block is narrower.
  Graph g;
  const Value x = g.input("x", f32({16, 5000})), top = g.input("top", f32({16, 1})),
              label = g.input("label", {DType::i32, {16, 1}});
  const Value scale = exp(top) * 0.5, shift = top - scale;
  const Value here = equal(iota(g, {1, 5000}, 1), label);
  const Value y = exp(x - shift) * scale + select(here, scale * shift, scalar_like(x, 0));
  g.output("y", y);
  g.output("sum", reduce_sum(y, {0}));  // for its sake the ops before it are a group
  const std::vector<ParameterSpec> specs{{"x", x.type(), Initializer::uniform(1)},
                                         {"top", top.type(), Initializer::uniform(1)}};
  TensorMap inputs = initialize(specs, 1);
  inputs.emplace("label", Tensor::filled(label.type(), 4321));
  const auto plain = make_backend("cpu", {1});
  CHECK(print_graph(*lower(g, *plain)).find("fused_reduction") != std::string::npos);
  const TensorMap wanted = evaluate(g, *plain, inputs, {.without = {"fused_reductions"}});
  for (int threads = 1; threads <= 4; ++threads) {
    CAPTURE(threads);
    const TensorMap got = evaluate(g, *make_backend("cpu", {threads}), inputs, k_without_sums);
    for (const char* name : {"y", "sum"}) {
      CAPTURE(name);
      CHECK(std::ranges::equal(got.at(name).bytes(), wanted.at(name).bytes()));
    }
  }
}

// ---- sums over rows

Shape shape_of_ones(int rank) {
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape = shape.inserted(axis, 1);
  return shape;
}

// The sum over all rows. `by_hand` writes down the order in which a group adds up: eight rows, or fewer that divide
// their number, at a time.
Value sum_of_rows(Value of, bool by_hand) {
  const std::int64_t columns = of.shape()[of.rank() - 1], rows = of.shape().elements() / columns;
  if (!by_hand) {
    Ints axes;
    for (int axis = 0; axis + 1 < of.rank(); ++axis) axes.push_back(axis);
    return reduce_sum(of, axes);
  }
  std::int64_t n = std::min<std::int64_t>(8, rows);
  while (rows % n != 0) --n;
  const Value groups = reshape(of, {rows / n, n, columns});
  Value sums = slice(groups, 1, 0, 1);
  for (std::int64_t k = 1; k < n; ++k) sums = sums + slice(groups, 1, k, 1);
  return reduce_sum(reshape(sums, {rows / n, columns}), {0});
}

// y of normalized rows; sums over all rows of y, of products, of products by a value per row, of such a value, and of
// products by one element for all.
void add_sums(Graph& g, const Shape& shape, bool by_hand) {
  const Value x = g.input("x", f32(shape)), d = g.input("d", f32(shape));
  const Value s = g.input("s", f32(shape.with(shape.rank() - 1, 1)));
  const Value y = normalized(x) * g.input("w", f32({shape[shape.rank() - 1]}));
  const auto sum_of = [&](Value of) { return sum_of_rows(of, by_hand); };
  g.output("y", y);
  g.output("sum", sum_of(tanh(y)));
  g.output("products", sum_of(y * d));
  g.output("scaled", sum_of(d * (y * s)));
  g.output("values", sum_of(s * reduce_max(y, {y.rank() - 1}, true)));
  const Value one = broadcast(g.input("one", f32(shape_of_ones(shape.rank()))), shape);
  g.output("by one element", sum_of(one * d));
  g.output("rest", y * one);
}

TEST_CASE("a group adds up rows in a fixed order, wherever they lie and whoever computes them") {
  for (const Shape& shape : {Shape{16, 64}, Shape{12, 5}, Shape{3, 8, 40}, Shape{5, 7, 33}, Shape{37, 20}, Shape{4, 1},
                             Shape{32, 700}, Shape{6, 5000}}) {
    CAPTURE(shape.text());
    Graph g, by_hand;
    add_sums(g, shape, false);
    add_sums(by_hand, shape, true);
    const TensorMap inputs = random_inputs(g);
    const auto cpu = make_backend("cpu", {1});
    const bool sums = print_graph(*lower(g, *cpu)).find("sum_rows=") != std::string::npos;
    CHECK(sums == (shape != Shape{37, 20}));  // a prime number of rows
    const TensorMap wanted = evaluate(by_hand, *cpu, inputs, {.without = {"fused_reductions"}});
    for (const int threads : {1, 2, 3, 4}) {
      CAPTURE(threads);
      const TensorMap got = evaluate(g, *make_backend("cpu", {threads}), inputs);
      for (const auto& output : wanted) {
        CAPTURE(output.first);
        if (!sums && output.first != "y") continue;
        CHECK(std::ranges::equal(got.at(output.first).bytes(), output.second.bytes()));
      }
    }
  }
}

TEST_CASE("a group adds up rows of a large result that others read too") {
  // Whole rows, because of their sum, and rows in blocks of columns.
  for (const bool by_columns : {false, true}) {
    CAPTURE(by_columns);
    const auto build = [&](Graph& g, bool by_hand) {
      const Value x = g.input("x", f32({32, 40000})), s = g.input("s", f32({32, 1}));
      const Value y = exp(x * s) * (by_columns ? s : row_sum(x));
      g.output("y", y);
      g.output("product", matmul(g.input("v", f32({3, 32})), y));
      g.output("sum", sum_of_rows(y, by_hand));
    };
    Graph g, by_hand;
    build(g, false);
    build(by_hand, true);
    const auto cpu = make_backend("cpu", {1});
    CHECK(print_graph(*lower(g, *cpu)).find("sum_rows=8") != std::string::npos);
    const TensorMap inputs = random_inputs(g), wanted = evaluate(by_hand, *cpu, inputs,
                                                                 {.without = {"fused_reductions"}});
    for (const int threads : {1, 2, 3, 4}) {
      CAPTURE(threads);
      const TensorMap got = evaluate(g, *make_backend("cpu", {threads}), inputs);
      for (const char* name : {"y", "product", "sum"})
        CHECK_MESSAGE(std::ranges::equal(got.at(name).bytes(), wanted.at(name).bytes()), name);
    }
  }
}

TEST_CASE("the gradients of gains and biases of a loop are sums of sums, whatever the schedule and the threads") {
  for (const Trained& t : {Trained{"lnlstm", 5, 16, 7, 24}, Trained{"lnlstm", 9, 32, 40, 256}}) {
    CAPTURE(t.hidden);
    TensorMap inputs;
    const auto graph = build(t, inputs);
    const std::string text = print_graph(*lower(*graph, *make_backend("cpu", {1})));
    CHECK(text.find("sum_rows=8") != std::string::npos);
    const TensorMap plain = evaluate(*graph, *make_backend("cpu", {1}), inputs, k_without_sums);
    const TensorMap wanted = evaluate(*graph, *make_backend("cpu", {1}), inputs);
    for (const auto& output : plain) {
      CAPTURE(output.first);
      double largest = 0, off = 0;
      for (std::int64_t i = 0; i < output.second.elements(); ++i) {
        largest = std::max(largest, std::abs(output.second.at(i)));
        off = std::max(off, std::abs(output.second.at(i) - wanted.at(output.first).at(i)));
      }
      // A sum of n terms in any order: n u times the sum of their sizes, here at most sqrt(n) times the largest result.
      const auto n = static_cast<double>(t.steps * t.batch);
      CHECK(off <= 0x1p-23 * n * std::sqrt(n) * largest);
    }
    for (int threads = 1; threads <= 4; ++threads)
      for (const char* schedule : {"rows", "columns", "calls", "one"}) {
        CAPTURE(threads);
        CAPTURE(schedule);
        const auto backend = make_backend("cpu", {.threads = threads, .specific = {{"schedule", schedule}}});
        const TensorMap got = evaluate(*graph, *backend, inputs);
        for (const auto& output : wanted) {
          CAPTURE(output.first);
          CHECK(std::ranges::equal(got.at(output.first).bytes(), output.second.bytes()));
        }
      }
  }
}

}  // namespace
}  // namespace unroll
