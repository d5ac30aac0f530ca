// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/support/crc32c.h"
#include "tests/support/compare.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

std::vector<std::string> names_of(const std::vector<ParameterSpec>& parameters) {
  std::vector<std::string> names;
  for (const ParameterSpec& p : parameters) names.push_back(p.name + " " + p.type.shape.text());
  return names;
}

// x [T,B,I] with lengths, and the sum of squares of everything that comes out, differentiated.
struct Job {
  Graph graph;
  Scope scope{graph, true, DType::f64};
  Value x = graph.input("x", {DType::f64, {5, 3, 4}});
  Value lengths = graph.input("lengths", {DType::i32, {3}});

  void finish(const CellLayerResult& r) {
    Value loss = sum(square(r.y));
    graph.output("y", r.y);
    for (std::size_t i = 0; i < r.states.size(); ++i) {
      loss = loss + sum(square(r.states[i]));
      graph.output("state" + std::to_string(i), r.states[i]);
    }
    std::vector<Value> wrt{x};
    for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph.find_input(p.name));
    const auto gradients = differentiate(loss, wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i)
      graph.output("d_" + (i == 0 ? std::string("x") : scope.parameters()[i - 1].name), gradients[i]);
  }
  // Initial states as inputs, [L*D, B, size] each.
  std::vector<Value> initial(int n_states, std::int64_t slots, std::int64_t size) {
    std::vector<Value> states;
    for (int i = 0; i < n_states; ++i)
      states.push_back(graph.input("initial" + std::to_string(i), {DType::f64, {slots, 3, size}}));
    return states;
  }
  TensorMap run() {
    const auto backend = make_backend("reference");
    TensorMap inputs = initialize(scope.parameters(), 3);
    for (const NamedValue& input : graph.inputs()) {
      if (input.name != "x" && !input.name.starts_with("initial")) continue;
      Tensor values(graph.type(input.value));
      for (std::int64_t i = 0; i < values.elements(); ++i) values.set(i, std::sin(static_cast<double>(i * i + 1)));
      inputs[input.name] = values;
    }
    inputs["lengths"] = Tensor::from<std::int32_t>({3}, {5, 2, 4});
    return evaluate(graph, *backend, inputs);
  }
};

Tensor drawn(Shape shape, const Initializer& how, std::uint64_t seed = 1, const char* name = "w") {
  return initialize(std::vector<ParameterSpec>{{name, {DType::f32, shape}, how}}, seed).at(name);
}

}  // namespace

TEST_CASE("recurrent parameters have PyTorch's names, shapes and order") {
  Graph graph;
  Scope scope(graph);
  const RecurrentModelOptions o{.hidden = 8, .layers = 2, .bidirectional = true, .projection = 3};
  const Value x = graph.input("x", {DType::f32, {7, 2, 5}});
  recurrent_model(scope.child("encoder"), x, o);
  CHECK(names_of(scope.parameters()) == std::vector<std::string>{"encoder.weight_ih_l0 [32,5]",
                                                                 "encoder.weight_hh_l0 [32,3]",
                                                                 "encoder.bias_ih_l0 [32]",
                                                                 "encoder.bias_hh_l0 [32]",
                                                                 "encoder.weight_hr_l0 [3,8]",
                                                                 "encoder.weight_ih_l0_reverse [32,5]",
                                                                 "encoder.weight_hh_l0_reverse [32,3]",
                                                                 "encoder.bias_ih_l0_reverse [32]",
                                                                 "encoder.bias_hh_l0_reverse [32]",
                                                                 "encoder.weight_hr_l0_reverse [3,8]",
                                                                 "encoder.weight_ih_l1 [32,6]",
                                                                 "encoder.weight_hh_l1 [32,3]",
                                                                 "encoder.bias_ih_l1 [32]",
                                                                 "encoder.bias_hh_l1 [32]",
                                                                 "encoder.weight_hr_l1 [3,8]",
                                                                 "encoder.weight_ih_l1_reverse [32,6]",
                                                                 "encoder.weight_hh_l1_reverse [32,3]",
                                                                 "encoder.bias_ih_l1_reverse [32]",
                                                                 "encoder.bias_hh_l1_reverse [32]",
                                                                 "encoder.weight_hr_l1_reverse [3,8]"});
}

TEST_CASE("layers without time have PyTorch's names and layouts") {
  Graph graph;
  Scope scope(graph);
  const Value ids = graph.input("ids", {DType::i32, {7, 2}});
  const Value e = embedding_layer(scope.child("embedding"), ids, 11, 4);
  linear_layer(scope.child("output"), layer_norm_layer(scope.child("norm"), e), 11);
  CHECK(names_of(scope.parameters()) == std::vector<std::string>{"embedding.weight [11,4]", "norm.weight [4]",
                                                                 "norm.bias [4]", "output.weight [11,4]",
                                                                 "output.bias [11]"});
}

TEST_CASE("a parameter asked for twice is one input, and refused in another shape") {
  Graph graph;
  Scope scope(graph);
  const Value w = scope.parameter("w", {2, 3}, Initializer::zeros());
  CHECK(scope.parameter("w", {2, 3}, Initializer::zeros()) == w);
  CHECK_THROWS_AS(scope.parameter("w", {3, 2}, Initializer::zeros()), Error);
}

TEST_CASE("a hand-written cell gives what the built-in layer gives: values, final states and all gradients") {
  struct Row {
    Op built_in;
    const char* cell;
  };
  for (const Row& row : {Row{Op::rnn, "rnn_cell"}, Row{Op::gru, "gru_cell"}, Row{Op::lstm, "lstm_cell"}})
    for (const bool bidirectional : {false, true}) {
      CAPTURE(row.cell);
      CAPTURE(bidirectional);
      Job built_in, user;
      RecurrentModelOptions o{.hidden = 6, .layers = 2, .bidirectional = bidirectional};
      const int n_states = row.built_in == Op::lstm ? 2 : 1;
      const std::int64_t slots = bidirectional ? 4 : 2;
      const auto initial = built_in.initial(n_states, slots, 6);
      o.cell = std::string(op_info(row.built_in).name);
      built_in.finish(recurrent_model(built_in.scope, built_in.x, o, initial, built_in.lengths));
      user.finish(
          cell_layer(user.scope, *find_cell(row.cell), user.x, o, user.initial(n_states, slots, 6), user.lengths));
      const TensorMap expected = built_in.run(), got = user.run();
      REQUIRE(expected.size() == got.size());
      // Sums are taken in another order: about T H eps = 5 * 6 * 1e-16 times values of order 10, with room.
      for (const auto& output : expected) {
        CAPTURE(output.first);
        CHECK(largest_difference(output.second, got.at(output.first)) < 1e-12);
      }
    }
}

TEST_CASE("every ready cell builds, runs and has gradients that are finite and reach every parameter") {
  for (const std::string& name : cell_names()) {
    CAPTURE(name);
    Job job;
    const RecurrentModelOptions o{.hidden = 6, .layers = 2, .bidirectional = true};
    job.finish(cell_layer(job.scope, *find_cell(name), job.x, o, {}, job.lengths));
    for (const auto& output : job.run()) {
      CAPTURE(output.first);
      CHECK(output.second.all_finite());
      double total = 0;
      for (std::int64_t i = 0; i < output.second.elements(); ++i) total += std::fabs(output.second.at(i));
      CHECK(total > 0);
    }
  }
}

TEST_CASE("a model is built by the name of its cell, and options of another cell are refused") {
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {4, 2, 3}});
  RecurrentModelOptions o;
  o.hidden = 5;
  o.projection = 2;
  CHECK(recurrent_model(scope.child("a"), x, o).y.shape() == Shape{4, 2, 2});
  CHECK(recurrent_state_shapes(o, 2) == std::vector<Shape>{{1, 2, 2}, {1, 2, 5}});
  o.cell = "gru";
  CHECK_THROWS_WITH_AS(recurrent_model(scope.child("b"), x, o), doctest::Contains("projection is an option of lstm"),
                       Error);
  o.projection = 0;
  o.cell = "lnlstm";
  CHECK(recurrent_model(scope.child("c"), x, o).states.size() == 2);
  o.cell = "lsmt";
  CHECK_THROWS_WITH_AS(recurrent_model(scope.child("d"), x, o), doctest::Contains("Known: rnn, gru, lstm"),
                       Error);
}

TEST_CASE("dropout acts in training only") {
  for (const bool training : {true, false}) {
    Graph graph;
    Scope scope(graph, training);
    const Value x = graph.input("x", {DType::f32, {4, 2, 3}});
    RecurrentModelOptions o;
    o.hidden = 5;
    o.layers = 3;
    o.dropout = 0.5;
    recurrent_model(scope, x, o);
    CHECK(static_cast<bool>(graph.find_input("key")) == training);
    CHECK(scope.next_rng_stream() == (training ? 2 : 0));  // one rng_stream for each gap between layers
  }
}

TEST_CASE("initial values depend on seed and name, not on the order or on other parameters") {
  const ParameterSpec a{"a", {DType::f32, {3, 4}}, Initializer::normal(1)},
      b{"b", {DType::f32, {5}}, Initializer::uniform(1)};
  const TensorMap both = initialize(std::vector{a, b}, 7), turned = initialize(std::vector{b, a}, 7);
  const TensorMap alone = initialize(std::vector{a}, 7), other = initialize(std::vector{a}, 8);
  CHECK(largest_difference(both.at("a"), turned.at("a")) == 0);
  CHECK(largest_difference(both.at("a"), alone.at("a")) == 0);
  CHECK(largest_difference(alone.at("a"), other.at("a")) > 0.1);
  CHECK(largest_difference(drawn({50}, Initializer::normal(1), 1, "a"), drawn({50}, Initializer::normal(1), 1, "b")) >
        0.1);
}

TEST_CASE("initial values have the same bits on every machine") {
  struct Row {
    Initializer how;
    std::uint32_t crc;
  };
  const Row rows[] = {{Initializer::uniform(0.25), 3777354725u},
                      {Initializer::normal(1), 2902786397u},
                      {Initializer::xavier_uniform(), 884938484u},
                      {Initializer::orthogonal(), 1758593957u}};
  for (const Row& row : rows) {
    Crc32c crc;
    crc.add(drawn({96, 32}, row.how, 12345).bytes());
    CHECK(crc.value() == row.crc);
  }
}

TEST_CASE("normal draws have the moments and the tails of a normal distribution") {
  const std::int64_t n = 1 << 18;
  const Tensor draws = drawn({n}, Initializer::normal(2));
  double sum[5] = {}, beyond = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double power = 1;
    for (double& s : sum) {
      s += power / static_cast<double>(n);
      power *= draws.at(i) / 2;
    }
    beyond += std::fabs(draws.at(i)) > 2 * 1.959964 ? 1.0 / static_cast<double>(n) : 0;
  }
  // Standard errors 1, sqrt 2, sqrt 15, sqrt 96 over sqrt n = 512, times 5.
  CHECK(std::fabs(sum[1]) < 5.0 / 512);
  CHECK(std::fabs(sum[2] - 1) < 7.1 / 512);
  CHECK(std::fabs(sum[3]) < 19.4 / 512);
  CHECK(std::fabs(sum[4] - 3) < 49.0 / 512);
  CHECK(std::fabs(beyond - 0.05) < 5 * 0.218 / 512);
}

TEST_CASE("xavier draws stay inside their bound and orthogonal blocks are orthogonal") {
  Initializer xavier = Initializer::xavier_uniform();
  xavier.blocks = 4;  // 4 gates of [8, 24]: bound sqrt(6 / 32)
  const Tensor w = drawn({32, 24}, xavier);
  double largest = 0;
  for (std::int64_t i = 0; i < w.elements(); ++i) largest = std::max(largest, std::fabs(w.at(i)));
  CHECK(largest <= std::sqrt(6.0 / 32));
  CHECK(largest > 0.95 * std::sqrt(6.0 / 32));

  Initializer how = Initializer::orthogonal(2);
  how.blocks = 3;
  const std::int64_t n = 16;
  const Tensor q = drawn({3 * n, n}, how);
  for (std::int64_t block = 0; block < 3; ++block)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (std::int64_t k = 0; k < n; ++k) dot += q.at((block * n + i) * n + k) * q.at((block * n + j) * n + k);
        CHECK(std::fabs(dot - (i == j ? 4 : 0)) < 4e-6);  // 16 products of f32 values of about 1/2
      }
}

TEST_CASE("the forget bias is added to the forget gate's part only") {
  Graph graph;
  Scope scope(graph);
  RecurrentModelOptions o;
  o.hidden = 4;
  o.init = RecurrentInit::orthogonal;
  o.forget_bias = 1;
  recurrent_model(scope, graph.input("x", {DType::f32, {2, 1, 3}}), o);
  const Tensor bias = initialize(scope.parameters(), 1).at("bias_ih_l0");
  for (std::int64_t i = 0; i < 16; ++i) CHECK(bias.at(i) == (i / 4 == 1 ? 1 : 0));
}

TEST_CASE("a step reads slices of a sequence and values around the layer, and its outputs are stacked") {
  Graph graph;
  Scope scope(graph);
  const Type type{DType::f32, {3, 2, 2}};
  const Value x = graph.input("x", type), sequence = graph.input("sequence", type),
              bias = graph.input("bias", {DType::f32, {2, 2}});
  const CellFactory factory = [&](std::int64_t hidden) {
    return Cell{{hidden}, [&](Step& step) {
                  const Value h = step.state(0) + step.x() * step.slice_of(sequence) + step.outer(bias);
                  return CellStep{{h}, h, {step.slice_of(sequence) + step.x()}};
                }};
  };
  const CellLayerResult r = cell_layer(scope.child("layer"), factory, x, {.hidden = 2});
  graph.output("y", r.y);
  graph.output("added", r.outputs[0]);
  TensorMap feed{{"x", Tensor(type)}, {"sequence", Tensor(type)}, {"bias", Tensor(DType::f32, {2, 2})}};
  for (std::int64_t i = 0; i < 12; ++i) {
    feed.at("x").set(i, static_cast<double>(i));
    feed.at("sequence").set(i, static_cast<double>(2 - i));
  }
  for (std::int64_t i = 0; i < 4; ++i) feed.at("bias").set(i, static_cast<double>(10 * i));
  for (const char* name : {"reference", "cpu"}) {
    const TensorMap got = evaluate(graph, *make_backend(name), feed);
    for (std::int64_t i = 0; i < 12; ++i) {
      double h = 0;
      for (std::int64_t k = i % 4; k <= i; k += 4) h += static_cast<double>(k * (2 - k) + 10 * (i % 4));
      CHECK(got.at("y").at(i) == h);
      CHECK(got.at("added").at(i) == 2);
    }
  }
}
