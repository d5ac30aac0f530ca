// SPDX-License-Identifier: Apache-2.0
// Layers before a recurrent stack, and cells that read a window of inputs: a sequence in parts, with resets and with
// lengths gives what the parts give alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/model/model.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_front {

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t T = 11, B = 3, I = 4, H = 5;

TextCell window_cell() {
  return {.name = "windowed", .states = {"h"}, .step = "h' = tanh(affine(window(x, 3), h)) + 0.5 * linear(x)"};
}

// One layer of convolutions, and two layers of a cell with a window: four states in one direction.
RecurrentModelOptions convolved() {
  return {.cell = "gru", .hidden = H, .front = {"conv(6, kernel=3)", "silu", "conv(6, 2, dilation=2, groups=2)"}};
}
RecurrentModelOptions windowed() { return {.cell = "windowed", .hidden = H, .layers = 2, .cells = {window_cell()}}; }
RecurrentModelOptions both() {
  RecurrentModelOptions o = windowed();
  o.front = convolved().front;
  return o;
}

Tensor numbers(const Type& type, double at = 0) {
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) t.set(i, std::sin(static_cast<double>(i * i + 1) + at));
  return t;
}

struct Ends {
  Tensor y;
  std::vector<Tensor> states;
};

// Rows [from, from + steps) of x [T,B,I], from given states; reset and lengths only if they are given.
Ends run(const RecurrentModelOptions& options, const Tensor& x, const std::vector<Tensor>& states = {},
         const Tensor* reset = nullptr, const Tensor* lengths = nullptr) {
  Graph graph;
  Scope scope(graph, /*training=*/false, DType::f64);
  TensorMap inputs{{"x", x}};
  const auto input = [&](const std::string& name, const Tensor& value) {
    inputs[name] = value;
    return graph.input(name, value.type());
  };
  const Value in = graph.input("x", x.type());
  std::vector<Value> initial;
  for (const Tensor& state : states) initial.push_back(input("s" + std::to_string(initial.size()), state));
  const CellLayerResult r =
      recurrent_model(scope, in, options, initial, lengths ? input("lengths", *lengths) : Value(),
                      reset ? input("reset", *reset) : Value());
  graph.output("y", r.y);
  for (std::size_t k = 0; k < r.states.size(); ++k) graph.output("n" + std::to_string(k), r.states[k]);
  inputs.merge(initialize(scope.parameters(), 7));
  const TensorMap found = evaluate(graph, *make_backend("reference"), inputs);
  Ends ends{found.at("y"), {}};
  for (std::size_t k = 0; k < r.states.size(); ++k) ends.states.push_back(found.at("n" + std::to_string(k)));
  return ends;
}

Tensor rows_of(const Tensor& x, std::int64_t from, std::int64_t steps) {
  Tensor part(Type{x.dtype(), x.shape().with(0, steps)});
  const std::int64_t row = x.elements() / x.shape()[0];
  for (std::int64_t i = 0; i < part.elements(); ++i) part.set(i, x.at(from * row + i));
  return part;
}
Tensor column_of(const Tensor& x, std::int64_t b) {  // [T,B,...] -> [T,1,...]
  Tensor part(Type{x.dtype(), x.shape().with(1, 1)});
  const std::int64_t inner = part.elements() / x.shape()[0];
  for (std::int64_t i = 0; i < part.elements(); ++i)
    part.set(i, x.at((i / inner * x.shape()[1] + b) * inner + i % inner));
  return part;
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type()) return false;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    if (std::fabs(a.at(i) - b.at(i)) > 1e-12) return false;
  return true;
}

const Tensor k_x = numbers({DType::f64, {T, B, I}});

}  // namespace

TEST_CASE("a sequence in parts, with carried states, gives what the whole gives") {
  for (const RecurrentModelOptions& options : {convolved(), windowed(), both()}) {
    const Ends whole = run(options, k_x);
    for (const std::int64_t first : {1, 2, 5, 10}) {
      CAPTURE(first);
      const Ends a = run(options, rows_of(k_x, 0, first)), b = run(options, rows_of(k_x, first, T - first), a.states);
      CHECK(same(a.y, rows_of(whole.y, 0, first)));
      CHECK(same(b.y, rows_of(whole.y, first, T - first)));
      REQUIRE(b.states.size() == whole.states.size());
      for (std::size_t k = 0; k < whole.states.size(); ++k) CHECK(same(b.states[k], whole.states[k]));
    }
  }
}

TEST_CASE("shapes and names of the states agree with the model") {
  for (const RecurrentModelOptions& options : {convolved(), windowed(), both()}) {
    const std::vector<Shape> shapes = recurrent_state_shapes(options, B, I);
    const Ends ends = run(options, k_x);
    REQUIRE(shapes.size() == ends.states.size());
    for (std::size_t k = 0; k < shapes.size(); ++k) CHECK(shapes[k] == ends.states[k].shape());
    CHECK(recurrent_state_names(options).size() == shapes.size());
  }
  CHECK(recurrent_state_names(both()) ==
        std::vector<std::string>{"h", "window0_", "window1_", "front0_", "front1_"});
  CHECK_THROWS_WITH_AS(recurrent_state_shapes(both(), B), doctest::Contains("width of the input"), Error);
}

TEST_CASE("no input before a reset is seen") {
  for (const RecurrentModelOptions& options : {convolved(), windowed(), both()})
    for (const std::vector<std::int64_t>& resets :
         std::vector<std::vector<std::int64_t>>{{0}, {4}, {10}, {3, 4}, {2, 7, 9}, {9, 10}}) {
      CAPTURE(resets.front());
      Tensor reset(Type{DType::b8, {T, B}});
      for (const std::int64_t t : resets)
        for (std::int64_t b = 0; b < B; ++b) reset.set(t * B + b, 1);
      std::vector<Tensor> before;
      for (const Shape& shape : recurrent_state_shapes(options, B, I))
        before.push_back(numbers({DType::f64, shape}, 3));
      const Ends found = run(options, k_x, before, &reset);
      std::vector<std::int64_t> cuts{0};
      for (const std::int64_t t : resets)
        if (t > 0) cuts.push_back(t);
      cuts.push_back(T);
      Ends part;
      for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
        const bool is_from_before = k == 0 && resets.front() > 0;
        part = run(options, rows_of(k_x, cuts[k], cuts[k + 1] - cuts[k]),
                   is_from_before ? before : std::vector<Tensor>());
        CHECK(same(part.y, rows_of(found.y, cuts[k], cuts[k + 1] - cuts[k])));
      }
      for (std::size_t k = 0; k < part.states.size(); ++k) CHECK(same(part.states[k], found.states[k]));
    }
}

TEST_CASE("a padded sequence gives what it gives alone, also in two directions and with both paddings") {
  const std::vector<std::int64_t> sizes{11, 4, 1};
  Tensor lengths(Type{DType::i32, {B}});
  for (std::int64_t b = 0; b < B; ++b) lengths.set(b, static_cast<double>(sizes[b]));
  std::vector<RecurrentModelOptions> models{convolved(), windowed(), both(), both(), convolved()};
  models[3].bidirectional = true;
  models[4].front = {"conv(6, 4, padding=same)", "relu", "conv(3, kernel=3, padding=same)"};
  for (const RecurrentModelOptions& options : models) {
    const Ends found = run(options, k_x, {}, nullptr, &lengths);
    for (std::int64_t b = 0; b < B; ++b) {
      CAPTURE(b);
      const Ends alone = run(options, rows_of(column_of(k_x, b), 0, sizes[b]));
      CHECK(same(alone.y, rows_of(column_of(found.y, b), 0, sizes[b])));
      for (std::size_t k = 0; k < alone.states.size(); ++k) CHECK(same(alone.states[k], column_of(found.states[k], b)));
    }
  }
}

TEST_CASE("a window holds the last inputs, oldest first") {
  const CellFactory last_three = [](std::int64_t) {
    return Cell{{}, [](Step& step) { return CellStep{{}, step.window(3), {}}; }, 3};
  };
  Graph graph;
  Scope scope(graph, /*training=*/false, DType::f64);
  graph.output("y", cell_layer(scope, last_three, graph.input("x", k_x.type()), {}).y);
  const Tensor y = evaluate(graph, *make_backend("reference"), {{"x", k_x}}).at("y");
  CHECK(y.shape() == Shape{T, B, 3 * I});
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t i = 0; i < B * 3 * I; ++i) {
      const std::int64_t b = i / (3 * I), from = t - 2 + i % (3 * I) / I;
      CHECK(y.at(t * B * 3 * I + i) == (from < 0 ? 0 : k_x.at((from * B + b) * I + i % I)));
    }
}

TEST_CASE("a model with a front and a window streams step by step") {
  const RecurrentModelOptions options = both();
  const Tensor x = numbers({DType::f32, {T, 2, I}});
  Graph graph;
  Scope scope(graph, /*training=*/false);
  graph.output("y", recurrent_model(scope, graph.input("x", x.type()), options).y);
  TensorMap parameters = initialize(scope.parameters(), 7), inputs = parameters;
  inputs["x"] = x;
  const std::shared_ptr<Backend> backend = make_backend("cpu");
  const Tensor y = evaluate(graph, *backend, inputs).at("y");
  Stream stream(backend, recurrent_stream(options, I), parameters, {.lanes = 2});
  std::vector<float> step(2 * H);
  for (std::int64_t t = 0; t < T; ++t) {
    REQUIRE(stream.step(x.values<float>().subspan(t * 2 * I, 2 * I), step));
    for (std::int64_t i = 0; i < 2 * H; ++i) CHECK(step[i] == doctest::Approx(y.at(t * 2 * H + i)).epsilon(1e-5));
  }
}

TEST_CASE("strides and pooling make sequences shorter, and gradients reach the front") {
  Graph graph;
  Scope scope(graph, /*training=*/true);
  const Value x = graph.input("x", {DType::f32, {12, 2, I}});
  const RecurrentModelOptions options{.hidden = H, .front = {"conv(8, kernel=3, stride=2)", "gelu", "max_pool(2)",
                                                             "layer_norm", "conv(8,1)", "glu", "dropout(0.1)"}};
  const CellLayerResult r = recurrent_model(scope, x, options);
  CHECK(r.y.shape() == Shape{3, 2, H});
  std::vector<Value> wrt;
  for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph.find_input(p.name));
  CHECK(graph.find_input("front.0.weight").shape() == Shape{8, I, 3});
  CHECK(graph.find_input("front.3.bias").shape() == Shape{8});
  const std::vector<Value> gradients = differentiate(sum(square(r.y)), wrt);
  for (std::size_t k = 0; k < wrt.size(); ++k) graph.output("d" + std::to_string(k), gradients[k]);
  TensorMap inputs = initialize(scope.parameters(), 7);
  inputs["x"] = numbers(x.type());
  inputs["key"] = Tensor::from<std::int32_t>({3}, {1, 0, 0});
  for (const auto& entry : evaluate(graph, *make_backend("cpu"), inputs)) {
    CAPTURE(entry.first);
    const Tensor& gradient = entry.second;
    double norm = 0;
    for (std::int64_t i = 0; i < gradient.elements(); ++i) norm += std::fabs(gradient.at(i));
    CHECK(norm > 0);
  }
}

TEST_CASE("a front that is none is refused with what to write") {
  struct Row {
    const char *text, *what;
  };
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {T, B, I}});
  for (const Row& row : std::vector<Row>{{"cnov(4, 3)", "Did you mean 'conv'?"},
                                         {"conv(4)", "lacks kernel. Write conv(CHANNELS, kernel=3"},
                                         {"conv(4, 3", "lacks a ')' at its end"},
                                         {"conv(4, 3) x", "lacks a ')' at its end"},
                                         {"conv(4, 3, kernel=3)", "has two values for kernel"},
                                         {"conv(4, 3, size=3)", "has an argument 'size=3'"},
                                         {"conv(4, 0)", "needs a whole kernel from 1 to"},
                                         {"conv(4, 3.5)", "needs a whole kernel"},
                                         {"conv(4, 3, padding=full)", "needs padding causal or same"},
                                         {"conv(4, 3, groups=3)", "groups must divide the channels"},
                                         {"relu(1)", "has an argument '1'"},
                                         {"dropout(1)", "needs a rate in [0,1)"},
                                         {"dropout(x)", "has 'x' where a number must be"},
                                         {"max_pool()", "lacks kernel"},
                                         {"", "is no layer"}}) {
    CAPTURE(row.text);
    const RecurrentModelOptions options{.hidden = H, .front = {row.text}};
    CHECK_THROWS_WITH_AS(recurrent_model(scope, x, options), doctest::Contains(row.what), Error);
  }
  const auto carried = [&](const char* front) {
    RecurrentModelOptions options{.cell = "gru", .hidden = H, .front = {front}};
    const std::vector<Value> states{graph.input(front, {DType::f32, {1, B, H}})};
    recurrent_model(scope.child(front), x, options, states);
  };
  CHECK_THROWS_WITH_AS(carried("conv(4, 3, padding=same)"), doctest::Contains("reads later steps"), Error);
  CHECK_THROWS_WITH_AS(carried("max_pool(2)"), doctest::Contains("has a stride, and here every step"), Error);
  CHECK_THROWS_WITH_AS(carried("conv(4, 3)"),
                       doctest::Contains("the model has 2 states, 1 of them of model.front; got 1"), Error);
}

TEST_CASE("a window is of x, and of a number of steps") {
  for (const char* step : {"h' = affine(window(h, 2), h)", "h' = affine(window(x, 0), h)",
                           "h' = affine(window(x, h), h)", "h' = affine(window(x, 1.5), h)",
                           "h' = affine(window(x + 1, 2), h)", "h' = affine(window(x, 2000), h)"}) {
    CAPTURE(step);
    CHECK_THROWS_WITH_AS(make_text_cell({.name = "w", .states = {"h"}, .step = step}),
                         doctest::Contains("window takes x and a number of steps from 1 to 1024"), Error);
  }
}

}  // namespace test_front
