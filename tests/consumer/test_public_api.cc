// SPDX-License-Identifier: Apache-2.0
// A program of the shared library alone, which has its public headers and its exported symbols, and no more.
#include <unroll/unroll.h>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace unroll;

namespace {

// An LSTM of its own from the equations of ir/cell_equations.h.
CellStep own_lstm(Step& step) {
  const std::vector<Value> args{step.x(), step.state(0)};
  const Value gates = step.affine("gates", args, 4 * step.hidden());
  const LstmState next = lstm_state(split(gates, -1, 4), step.state(1));
  return {{next.h, next.c}, {}};
}
CellStep own_gru(Step& step) {
  const Value h = step.state(0);
  const std::vector<Value> from_x{step.x()}, from_h{h};
  const auto x = split(step.affine("x", from_x, 3 * step.hidden()), -1, 3),
             gates = split(step.affine("h", from_h, 2 * step.hidden()), -1, 2);
  return {{gru_state(x, gates, h, [&](Value r) { return r * h; })}, {}};
}
CellStep own_rnn(Step& step) {
  const std::vector<Value> args{step.x(), step.state(0)};
  return {{rnn_state(step.affine("sum", args, step.hidden()))}, {}};
}

// What an action throws: kind and text.
template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  return "nothing is thrown";
}

const Type k_two_by_three{DType::f32, {2, 3}};
TensorMap ones(const Type& type) { return {{"x", Tensor::filled(type, 1)}}; }

}  // namespace

TEST_CASE("cells of a program may be built on the equations of rnn, gru and lstm") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (CellStep (*step)(Step&) : {own_lstm, own_gru, own_rnn}) {
    Graph graph;
    Scope scope(graph);
    const Value x = graph.input("x", {DType::f32, {3, 2, 4}});
    const std::size_t n_states = step == own_lstm ? 2 : 1;
    const auto cell = [&](std::int64_t hidden) { return Cell{std::vector<std::int64_t>(n_states, hidden), step}; };
    graph.output("y", cell_layer(scope, cell, x, {.hidden = 8}).y);
    TensorMap inputs = initialize(scope.parameters(), 1);
    inputs.merge(ones(x.type()));
    CHECK(evaluate(graph, *backend, inputs).at("y").at(0) != 0);
  }
}

TEST_CASE("a program whose backend has ended refuses to run") {
  Graph graph;
  graph.output("y", tanh(graph.input("x", k_two_by_three)) * 2);
  Program program(graph, *make_backend("cpu", {.threads = 1}));  // the backend ends here
  const std::string wanted = "the backend has been destroyed. Keep the result of make_backend in a variable";
  CHECK(refusal([&] { program.run(ones(k_two_by_three)); }).find(wanted) != std::string::npos);
  CHECK(refusal([&] { (void)program.backend(); }).find(wanted) != std::string::npos);
  CHECK(!program.try_run(ones(k_two_by_three)));
}

TEST_CASE("a program keeps a backend that it gets as a pointer") {
  Graph graph;
  graph.output("y", tanh(graph.input("x", k_two_by_three)));
  Program program(graph, make_backend("cpu", {.threads = 1}));
  CHECK(program.run(ones(k_two_by_three)).at("y").at(0) == doctest::Approx(std::tanh(1.0)));

  const std::shared_ptr<Backend> shared = make_backend("reference");
  CHECK(evaluate(graph, shared, ones(k_two_by_three)).at("y").at(0) == doctest::Approx(std::tanh(1.0)));
  CHECK(refusal([&] { Program(graph, std::shared_ptr<Backend>()); }).find("the backend is null") != std::string::npos);
}

TEST_CASE("a model and a stream whose backend has ended refuse to run") {
  const Network network = [](Scope&, const Inputs& in) {
    TaskGraph task;
    task.outputs = {{"y", tanh(in["x"])}};
    return task;
  };
  Model model(*make_backend("cpu", {.threads = 1}), network, {});
  CHECK(refusal([&] { model.run(ones(k_two_by_three)); }).find("has been destroyed") != std::string::npos);

  const StreamModel gru = recurrent_stream({.cell = "gru", .hidden = 4}, 3);
  Graph graph;
  Scope scope(graph);
  const Value h = graph.input("h", {DType::f32, {1, 1, 4}});
  gru.build(scope, graph.input("x", {DType::f32, {1, 1, 3}}), std::vector{h});
  Stream stream(*make_backend("cpu", {.threads = 1}), gru, initialize(scope.parameters(), 1));
  const std::vector<float> x(3);
  std::vector<float> y(4);
  CHECK_FALSE(stream.step(x, y));
  CHECK(refusal([&] { (void)stream.save(); }).find("has been destroyed") != std::string::npos);
}
