// SPDX-License-Identifier: Apache-2.0
// Cells given as text: what they compute and how their parameters are called.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "core/model/cells/text_cell.h"
#include "core/tasks/common/task_parts.h"
#include "tests/support/compare.h"
#include "tests/support/each_backend.h"
#include "tests/training/text_cells.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_text_cell {

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::int64_t T = 5, B = 3, I = 4, H = 6;

// A layer of the cell in f64 on numbers that are no symmetric choice, with its gradients.
struct Job {
  Graph graph;
  Scope scope;
  Value x, y;
  explicit Job(bool training = true)
      : scope(graph, training, DType::f64), x(graph.input("x", {DType::f64, {T, B, I}})) {}

  CellLayerResult build(const CellFactory& cell, int layers = 1, bool bidirectional = false) {
    const CellLayerResult r = cell_layer(scope, cell, x,
                                         {.hidden = H, .layers = layers, .bidirectional = bidirectional});
    y = r.y;
    graph.output("y", r.y);
    for (std::size_t i = 0; i < r.states.size(); ++i) graph.output("state" + std::to_string(i), r.states[i]);
    return r;
  }
  void differentiate_all() {
    std::vector<Value> wrt{x};
    for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph.find_input(p.name));
    const auto gradients = differentiate(sum(square(y)), wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i)
      graph.output("d_" + (i == 0 ? std::string("x") : scope.parameters()[i - 1].name), gradients[i]);
  }
  TensorMap run(TensorMap parameters = {}, const char* backend_name = "reference", std::int32_t update = 0) {
    const auto backend = make_backend(backend_name);
    if (parameters.empty()) parameters = initialize(scope.parameters(), 3);
    Tensor values(x.type());
    for (std::int64_t i = 0; i < values.elements(); ++i) values.set(i, std::sin(static_cast<double>(i * i + 1)));
    parameters["x"] = values;
    if (graph.find_input("key")) parameters["key"] = Tensor::from<std::int32_t>({3}, {11, 0, update});
    return evaluate(graph, *backend, parameters);
  }
};

std::vector<std::string> parameter_names(const TextCell& cell, int layers = 1, bool bidirectional = false) {
  Job job;
  job.build(make_text_cell(cell), layers, bidirectional);
  std::vector<std::string> names;
  for (const ParameterSpec& p : job.scope.parameters()) names.push_back(p.name + " " + p.type.shape.text());
  return names;
}

const std::string k_mgu =
    "f  = sigmoid(affine(x, h))   # forget\n"
    "n  = tanh(affine(x, f * h))\n"
    "\n"
    "h' = (1 - f) * h + f * n\n";

}  // namespace

TEST_CASE("a cell of text computes what the same cell in C++ computes, and its gradients") {
  Job text, ready;
  text.build(make_text_cell(cell_of(k_mgu)), 2, true);
  ready.build(*find_cell("mgu"), 2, true);
  text.differentiate_all();
  ready.differentiate_all();
  // mgu calls its gates "forget" and "new".
  const TensorMap values = initialize(text.scope.parameters(), 3);
  const auto other_name = [](const std::string& name) {
    return (name.starts_with("f.") ? "forget" : "new") + name.substr(1);
  };
  TensorMap renamed;
  for (const auto& [name, tensor] : values) renamed[other_name(name)] = tensor;
  const TensorMap got = text.run(values), expected = ready.run(renamed);
  REQUIRE(got.size() == expected.size());
  // (1 - f) h + f n against h + f (n - h): a few roundings of 1e-16 per step of 5, carried by gradients of order 10.
  for (const auto& [key, tensor] : got) {
    const std::string& name = key;  // clang 14 captures no structured binding
    CAPTURE(name);
    const bool of_parameter = name.starts_with("d_") && name != "d_x";
    CHECK(largest_difference(tensor, expected.at(of_parameter ? "d_" + other_name(name.substr(2)) : name)) < 1e-12);
  }
}

TEST_CASE("parameters are called after the variable, counted in a line, with layer and direction behind") {
  CHECK(parameter_names(cell_of(k_mgu), 2, true) ==
        std::vector<std::string>{
            "f.weight_0_l0 [6,4]", "f.weight_1_l0 [6,6]", "f.bias_l0 [6]", "n.weight_0_l0 [6,4]",
            "n.weight_1_l0 [6,6]", "n.bias_l0 [6]", "f.weight_0_l0_reverse [6,4]", "f.weight_1_l0_reverse [6,6]",
            "f.bias_l0_reverse [6]", "n.weight_0_l0_reverse [6,4]", "n.weight_1_l0_reverse [6,6]",
            "n.bias_l0_reverse [6]", "f.weight_0_l1 [6,12]", "f.weight_1_l1 [6,6]", "f.bias_l1 [6]",
            "n.weight_0_l1 [6,12]", "n.weight_1_l1 [6,6]", "n.bias_l1 [6]", "f.weight_0_l1_reverse [6,12]",
            "f.weight_1_l1_reverse [6,6]", "f.bias_l1_reverse [6]", "n.weight_0_l1_reverse [6,12]",
            "n.weight_1_l1_reverse [6,6]", "n.bias_l1_reverse [6]"});
  // In reading order: the norm stands before the product that it takes.
  const auto names = parameter_names(
      cell_of("g = layer_norm(linear(x)) + affine(h) * param(p) + param(p)\nh' = tanh(linear(concat(g, x)))"));
  CHECK(std::set<std::string>(names.begin(), names.end()) ==
        std::set<std::string>{"g.weight_l0 [6]", "g.bias_l0 [6]", "g2.weight_0_l0 [6,4]", "g3.weight_0_l0 [6,6]",
                              "g3.bias_l0 [6]", "p_l0 [6]", "h.weight_0_l0 [6,10]"});
}

TEST_CASE("products and vectors start from U(-1/sqrt H, 1/sqrt H), norms from one and zero") {
  Job job;
  job.build(make_text_cell(cell_of("g = layer_norm(affine(x, h)) + param(p)\nh' = tanh(g)")));
  for (const ParameterSpec& p : job.scope.parameters()) {
    CAPTURE(p.name);
    const bool norm = p.name == "g.weight_l0" || p.name == "g.bias_l0";
    CHECK(p.initializer.kind == (norm ? Initializer::Kind::constant : Initializer::Kind::uniform));
    CHECK(p.initializer.scale == (p.name == "g.weight_l0" ? 1 : p.name == "g.bias_l0" ? 0 : 1 / std::sqrt(6.0)));
  }
}

TEST_CASE("every elementwise function gives the same for numbers and for vectors") {
  struct Row {
    const char* call;  // of a
    double expected;   // at 0.7
  };
  const double a = 0.7;
  const Row rows[] = {{"sigmoid(a)", 1 / (1 + std::exp(-a))}, {"tanh(a)", std::tanh(a)},
                      {"relu(a)", a},                         {"relu(-a)", 0},
                      {"silu(a)", a / (1 + std::exp(-a))},    {"softplus(a)", std::log(1 + std::exp(a))},
                      {"exp(a)", std::exp(a)},                {"log(a)", std::log(a)},
                      {"sqrt(a)", std::sqrt(a)},              {"abs(-a)", a},
                      {"min(a, 1)", a},                       {"max(a, 1)", 1},
                      {"1 + 2 * a - a / 4", 1 + 1.4 - 0.175}, {"-(2 - a) - -1", -0.3},
                      {"hidden / input * a", 1.05},           {"1e-1 + .5 + 2.", 2.6}};
  for (const Row& row : rows) {
    CAPTURE(row.call);
    // a is 0.7 as a number in u and as a vector in v; both become states.
    const auto with = [&](const std::string& value) {
      std::string text = row.call;
      for (std::size_t at = 0; (at = text.find('a', at)) != std::string::npos; ++at)
        if ((at == 0 || !std::isalpha(text[at - 1])) && (at + 1 == text.size() || !std::isalpha(text[at + 1])))
          text.replace(at, 1, value);
      return text;
    };
    Job job;
    job.build(make_text_cell(cell_of("w = 0 * h + 0.7\nu' = " + with("0.7") + "\nv' = " + with("w") + "\nh' = h",
                                     {"h", "u", "v"})));
    const TensorMap got = job.run();
    for (const char* state : {"state1", "state2"}) {
      CAPTURE(state);
      // A few units of 2^-53 in numbers up to 2.6.
      CHECK(std::fabs(got.at(state).at(0) - row.expected) < 4e-15);
    }
  }
}

TEST_CASE("softmax, concat, slice and layer_norm work on the last axis") {
  Job job;
  job.build(make_text_cell(cell_of("p = softmax(x)\n"
                                   "back = concat(slice(x, 2, input - 2), slice(x, 0, 2))\n"
                                   "n = layer_norm(concat(x, param(q)))\n"
                                   "h' = h",
                                   {"h"}, "concat(p, back, n)")));
  TensorMap parameters = initialize(job.scope.parameters(), 3);
  const Tensor q = parameters.at("q_l0"), y = job.run(parameters).at("y");
  CHECK(y.shape() == Shape{T, B, 2 * I + I + H});
  double x[I], total = 0, mean = 0, square_sum = 0;
  for (int i = 0; i < I; ++i) total += std::exp(x[i] = std::sin(i * i + 1.0)), mean += x[i] / (I + H);
  for (int i = 0; i < H; ++i) mean += q.at(i) / (I + H);
  for (int i = 0; i < I + H; ++i) square_sum += std::pow((i < I ? x[i] : q.at(i - I)) - mean, 2);
  const double deviation = std::sqrt(square_sum / (I + H) + 1e-5);
  // Sums of ten numbers around one in f64.
  for (int i = 0; i < I; ++i) {
    CHECK(std::fabs(y.at(i) - std::exp(x[i]) / total) < 1e-14);
    CHECK(y.at(I + i) == x[(i + 2) % I]);
  }
  for (int i = 0; i < I + H; ++i)
    CHECK(std::fabs(y.at(2 * I + i) - ((i < I ? x[i] : q.at(i - I)) - mean) / deviation) < 1e-14);
}

TEST_CASE("the first state is the output unless y is given, as a line or apart") {
  const std::string step = "c' = tanh(affine(x, c))\nh' = 0.5 * c' + h\n";
  Job first, line, apart;
  const auto run = [&](Job& job, const TextCell& cell) {
    job.build(make_text_cell(cell));
    return job.run();
  };
  const std::vector<std::string> states{"h", "c"};
  const TensorMap a = run(first, cell_of(step, states)), b = run(line, cell_of(step + "y = c' * 2", states)),
                  c = run(apart, cell_of(step, states, "\n  c' * 2"));
  // The last step's row of y is the final state, [L*D,B,H] with one layer and direction.
  const auto last = [](const TensorMap& r, std::int64_t i) { return r.at("y").at((T - 1) * B * H + i); };
  for (std::int64_t i = 0; i < B * H; ++i) {
    CHECK(last(a, i) == a.at("state0").at(i));
    CHECK(last(b, i) == 2 * b.at("state1").at(i));
    CHECK(last(c, i) == last(b, i));
  }
}

TEST_CASE("numbers and vectors serve all rows, as states and as output") {
  Job job;
  job.build(make_text_cell(cell_of("h' = param(p)\nc' = 0.25 * hidden\ny = param(q)", {"h", "c"})));
  const TensorMap parameters = initialize(job.scope.parameters(), 3), got = job.run(parameters);
  for (std::int64_t i = 0; i < B * H; ++i) {
    CHECK(got.at("state0").at(i) == parameters.at("p_l0").at(i % H));
    CHECK(got.at("state1").at(i) == 1.5);
    CHECK(got.at("y").at(i) == parameters.at("q_l0").at(i % H));
  }
}

TEST_CASE("a sequence without steps leaves the states as they are") {
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {0, B, I}}), h0 = graph.input("h0", {DType::f32, {1, B, H}});
  const CellFactory cell = make_text_cell(cell_of("h' = tanh(affine(x, dropout(h, 0.5)))"));
  const CellLayerResult r = cell_layer(scope, cell, x, {.hidden = H}, std::vector{h0});
  graph.output("y", r.y);
  graph.output("hn", r.states[0]);
  graph.output("d", differentiate(sum(r.states[0]), std::vector{h0})[0]);
  TensorMap inputs = initialize(scope.parameters(), 3);
  inputs["x"] = Tensor(x.type());
  inputs["h0"] = Tensor::filled(h0.type(), 0.75);
  inputs["key"] = Tensor(DType::i32, {3});
  for (const std::string& backend : testing::computing_backends()) {
    const TensorMap got = evaluate(graph, *make_backend(backend), inputs);
    CHECK(got.at("y").shape() == Shape{0, B, H});
    CHECK(got.at("hn").at(0) == 0.75);
    CHECK(got.at("d").at(0) == 1);
  }
}

TEST_CASE("lines go on inside parentheses, and space and comments are free") {
  const std::vector<std::string> plain = parameter_names(cell_of("h'=tanh(affine(x,h))"));
  CHECK(parameter_names(cell_of("# é: anything may stand here \" \\ \r\n\r\n  h'\t= tanh(affine(x, # input\n"
                                "   h)\n)  # end")) == plain);
}

TEST_CASE("dropout in a step draws a new mask for every step, row and update, in training only") {
  const CellFactory cell = make_text_cell(cell_of("h' = h\nd = dropout(0 * h + 1, 0.5)\ny = d"));
  Job job(true), plain(false);
  job.build(cell, 1, true);
  plain.build(cell, 1, true);
  CHECK_FALSE(static_cast<bool>(plain.graph.find_input("key")));
  const Tensor ones = plain.run().at("y"), y = job.run().at("y"), again = job.run().at("y"),
               later = job.run({}, "reference", 1).at("y");
  CHECK(largest_difference(y, again) == 0);
  CHECK(largest_difference(y, later) == 2);
  std::set<std::string> masks;
  for (std::int64_t row = 0; row < T * B * 2; ++row) {
    std::string mask;
    for (std::int64_t i = 0; i < H; ++i) {
      CHECK(ones.at(row * H + i) == 1);
      CHECK((y.at(row * H + i) == 0 || y.at(row * H + i) == 2));
      mask += y.at(row * H + i) == 0 ? '0' : '1';
    }
    masks.insert(mask);
  }
  // 30 masks of 6 bits: fewer than 16 different ones have a chance below 1e-6 were they random; one mask for all
  // steps, rows or directions gives at most 15.
  CHECK(masks.size() >= 16);
}

TEST_CASE("the gradient of a step with dropout uses the masks of its forward pass, on every backend") {
  const CellFactory cell =
      make_text_cell(cell_of("n = tanh(affine(x, dropout(h, 0.4)))\nh' = h + 0.7 * dropout(n - h, 0.3)"));
  Job job;
  job.build(cell, 2);
  job.differentiate_all();
  const TensorMap parameters = initialize(job.scope.parameters(), 3);
  const TensorMap got = job.run(parameters);
  const std::string name = "n.weight_1_l0";
  const auto loss = [&](const TensorMap& at) {
    const Tensor y = job.run(at).at("y");
    double total = 0;
    for (std::int64_t i = 0; i < y.elements(); ++i) total += y.at(i) * y.at(i);
    return total;
  };
  for (const std::int64_t element : {0, 7, 35}) {
    constexpr double step = 1e-5;
    TensorMap up = parameters, down = parameters;
    const double value = parameters.at(name).at(element);
    up.at(name).set(element, value + step);
    down.at(name).set(element, value - step);
    // Central differences: step^2 times third derivatives of order 10, and 1e-16 * loss of order 50 / step.
    CHECK(std::fabs((loss(up) - loss(down)) / (2 * step) - got.at("d_" + name).at(element)) < 5e-9);
  }
  const auto backend = make_backend("cpu");
  Graph f32;
  Scope scope(f32);
  const Value x = f32.input("x", {DType::f32, {T, B, I}});
  f32.output("y", cell_layer(scope, cell, x, {.hidden = H, .layers = 2, .bidirectional = true}).y);
  TensorMap inputs = initialize(scope.parameters(), 3);
  inputs["x"] = initialize(std::vector<ParameterSpec>{{"x", x.type(), Initializer::uniform(1)}}, 1).at("x");
  inputs["key"] = Tensor::from<std::int32_t>({3}, {11, 0, 4});
  const auto reference = make_backend("reference");
  // Equal masks, and tanh of sums of ten numbers below one in f32: 1e-6 holds, a different mask moves by 0.1.
  CHECK(largest_difference(evaluate(f32, *backend, inputs).at("y"), evaluate(f32, *reference, inputs).at("y")) < 1e-6);
}

TEST_CASE("a model's metadata holds the cell that it uses, and only that") {
  RecurrentModelOptions o;
  o.cells = {cell_of("h' = x"), cell_of("c' = h\nh' = c", {"h", "c"}, "2 * h'")};
  o.cells[1].name = o.cell = "used";
  Metadata metadata;
  put_model_options(metadata, o);
  const RecurrentModelOptions again = get_model_options(metadata);
  REQUIRE(again.cells.size() == 1);
  CHECK(again.cell == "used");
  CHECK(again.cells[0].name == "used");
  CHECK(again.cells[0].states == o.cells[1].states);
  CHECK(again.cells[0].step == o.cells[1].step);
  CHECK(again.cells[0].y == o.cells[1].y);
  CHECK(again.cells[0].place.file == "model metadata");  // errors are of an input file
  o.cell = "lstm";
  put_model_options(metadata = {}, o);
  CHECK_FALSE(metadata.contains("model.cell.step"));
  CHECK(get_model_options(metadata).cells.empty());
}

TEST_CASE("the documentation has every function") {
  std::ifstream file(UNROLL_SOURCE_ROOT "/docs/adding-a-cell.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const text_cell::FunctionRow& row : text_cell::function_table()) {
    CAPTURE(row.name);
    CHECK(text.str().find("`" + std::string(row.usage) + "`") != std::string::npos);
  }
}

TEST_CASE("a model finds a text cell by its name, and names its states") {
  RecurrentModelOptions o;
  o.hidden = 5;
  o.cell = "mine";
  o.cells = {cell_of("c' = tanh(affine(x, c))\nout' = c' + out", {"out", "c"})};
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {4, 2, 3}});
  CHECK(recurrent_model(scope, x, o).y.shape() == Shape{4, 2, 5});
  CHECK(recurrent_state_shapes(o, 2) == std::vector<Shape>{{1, 2, 5}, {1, 2, 5}});
  CHECK(recurrent_state_names(o) == std::vector<std::string>{"out", "c"});
  const auto refused = [&](const char* what) {
    CHECK_THROWS_WITH_AS(recurrent_model(scope, x, o), doctest::Contains(what), Error);
  };
  o.cell = "mime";
  refused("Did you mean 'mine'? Known: rnn, gru, lstm, rnn_cell");
  o.cell = "mine";
  o.cells.push_back(o.cells[0]);
  refused("there are two text cells 'mine'");
  o.cells[1].name = "lstm";
  refused("a built-in cell has this name");
  o.cells.pop_back();
  o.bias = false;
  refused("bias = false is for rnn, gru and lstm");
  o.bias = true;
  o.cell = o.cells[0].name = "lnlstm";  // comes before the ready cell, whose states are h and c
  CHECK(recurrent_state_names(o) == std::vector<std::string>{"out", "c"});
  CHECK(recurrent_model(scope.child("own"), x, o).states.size() == 2);
  CHECK(static_cast<bool>(graph.find_input("own.c.weight_0_l0")));
  o = {};
  CHECK(recurrent_state_names(o) == std::vector<std::string>{"h", "c"});
  o.cell = "mgu";
  CHECK(recurrent_state_names(o) == std::vector<std::string>{"h"});
}

}  // namespace test_text_cell
