// SPDX-License-Identifier: Apache-2.0
// A program of the shared library alone, which has its public headers and its exported symbols, and no more.
#include <unroll/unroll.h>

#include <doctest/doctest.h>

#include <vector>

using namespace unroll;

namespace {

// An LSTM of its own from the equations of plan/cell_equations.h.
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
    inputs.emplace("x", Tensor::filled(x.type(), 1));
    CHECK(evaluate(graph, *backend, inputs).at("y").at(0) != 0);
  }
}
