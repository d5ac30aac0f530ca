// SPDX-License-Identifier: Apache-2.0
// Built-in cells, each a few equations. s is the logistic function, * elementwise, LN layer normalization with its own
// weight and bias. Use this file as a template for new cells: see docs/adding-a-cell.md.
#include <cmath>

#include "unroll/ir/cell_equations.h"
#include "unroll/model/model.h"

namespace unroll {

namespace {

Initializer uniform_of(std::int64_t hidden) { return Initializer::uniform(1 / std::sqrt(static_cast<double>(hidden))); }

// PyTorch's parameters for `rows` gate outputs: weight_ih [rows, I], weight_hh [rows, H], bias_ih, bias_hh [rows].
struct Products {
  Value from_x, from_h;  // [B, rows], each with its bias
};
Products torch_products(Step& step, std::int64_t gates) {
  const std::int64_t H = step.hidden(), rows = gates * H;
  const Initializer start = uniform_of(H);
  const Value w_ih = step.parameter("weight_ih", {rows, step.x().shape()[1]}, start);
  const Value w_hh = step.parameter("weight_hh", {rows, H}, start);
  const Value b_ih = step.parameter("bias_ih", {rows}, start), b_hh = step.parameter("bias_hh", {rows}, start);
  return {linear(step.x(), w_ih, b_ih), linear(step.state(0), w_hh, b_hh)};
}

// The sum is W x + b + U h + b'.
CellStep rnn_cell(Step& step) {
  const Products p = torch_products(step, 1);
  return {{rnn_state(p.from_x + p.from_h)}, {}};
}

// The recurrent part of the new value is r * (U_n h + b_n').
CellStep gru_cell(Step& step) {
  const Products p = torch_products(step, 3);
  const auto x = split(p.from_x, -1, 3), h = split(p.from_h, -1, 3);
  return {{gru_state(x, h, step.state(0), [&](Value r) { return r * h[2]; })}, {}};
}

// The gates are W x + b + U h + b'.
CellStep lstm_cell(Step& step) {
  const Products p = torch_products(step, 4);
  const LstmState next = lstm_state(split(p.from_x + p.from_h, -1, 4), step.state(1));
  return {{next.h, next.c}, {}};
}

// Ba et al. 2016: gates LN(W x) + LN(U h); the cell state is normalized for the output: h' = s(o) * tanh(LN(c')).
CellStep lnlstm(Step& step) {
  const std::int64_t H = step.hidden();
  const Value w_ih = step.parameter("weight_ih", {4 * H, step.x().shape()[1]}, uniform_of(H));
  const Value w_hh = step.parameter("weight_hh", {4 * H, H}, uniform_of(H));
  const Value x = step.layer_norm("norm_ih", linear(step.x(), w_ih)),
              h = step.layer_norm("norm_hh", linear(step.state(0), w_hh));
  const auto gate = split(x + h, -1, 4);
  const Value c = sigmoid(gate[1]) * step.state(1) + sigmoid(gate[0]) * tanh(gate[2]);
  return {{sigmoid(gate[3]) * tanh(step.layer_norm("norm_c", c)), c}, {}};
}

// Gers et al. 2002: i and f read the previous cell state, o the new one.
CellStep peephole_lstm(Step& step) {
  const Products p = torch_products(step, 4);
  const auto see = [&](const char* name) { return step.parameter(name, {step.hidden()}, uniform_of(step.hidden())); };
  const LstmVariant variant{.w_ci = see("weight_ci"), .w_cf = see("weight_cf"), .w_co = see("weight_co")};
  const LstmState next = lstm_state(split(p.from_x + p.from_h, -1, 4), step.state(1), variant);
  return {{next.h, next.c}, {}};
}

// Zhou et al. 2016, minimal gated unit: f = s(W x + U h + b);  n = tanh(W' x + U' (f * h) + b');  
// h' = (1 - f) * h + f * n
CellStep mgu(Step& step) {
  const Value x = step.x(), h = step.state(0);
  const Value f = sigmoid(step.affine("forget", std::vector{x, h}, step.hidden()));
  const Value n = tanh(step.affine("new", std::vector{x, f * h}, step.hidden()));
  return {{h + f * (n - h)}, {}};
}

// Ravanelli et al. 2018, light GRU with LN instead of batch normalization:
// z = s(LN(W x) + U h);  n = relu(LN(W' x) + U' h);  h' = z * h + (1 - z) * n
CellStep ligru(Step& step) {
  const std::int64_t H = step.hidden();
  const Value w_ih = step.parameter("weight_ih", {2 * H, step.x().shape()[1]}, uniform_of(H));
  const Value w_hh = step.parameter("weight_hh", {2 * H, H}, uniform_of(H));
  const Value h = step.state(0);
  const auto gate = split(step.layer_norm("norm_ih", linear(step.x(), w_ih)) + linear(h, w_hh), -1, 2);
  const Value z = sigmoid(gate[0]), n = relu(gate[1]);
  return {{n + z * (h - n)}, {}};
}

// Li et al. 2018, independently recurrent: h' = relu(W x + u * h + b)
CellStep indrnn(Step& step) {
  const Value u = step.parameter("weight_hh", {step.hidden()}, Initializer::uniform(1));
  return {{relu(step.affine("input", std::vector{step.x()}, step.hidden()) + u * step.state(0))}, {}};
}

// van der Westhuizen & Lasenby 2018, forget gate only: f = s(W x + U h + b);
// h' = f * h + (1 - f) * tanh(W' x + U' h + b')
CellStep janet(Step& step) {
  const Value x = step.x(), h = step.state(0);
  const Value f = sigmoid(step.affine("forget", std::vector{x, h}, step.hidden()));
  const Value n = tanh(step.affine("new", std::vector{x, h}, step.hidden()));
  return {{n + f * (h - n)}, {}};
}

struct NamedCell {
  std::string_view name;
  CellFactory factory;
};

// All states of the cell have the hidden size; most cells have one state.
CellFactory with_states(std::size_t n, CellStep (*step)(Step&)) {
  return [n, step](std::int64_t hidden) { return Cell{std::vector<std::int64_t>(n, hidden), step}; };
}

const std::vector<NamedCell>& named_cells() {
  static const std::vector<NamedCell> rows{
      {"rnn_cell", with_states(1, rnn_cell)},
      {"gru_cell", with_states(1, gru_cell)},
      {"lstm_cell", with_states(2, lstm_cell)},
      {"lnlstm", with_states(2, lnlstm)},
      {"peephole_lstm", with_states(2, peephole_lstm)},
      {"mgu", with_states(1, mgu)},
      {"ligru", with_states(1, ligru)},
      {"indrnn", with_states(1, indrnn)},
      {"janet", with_states(1, janet)},
  };
  return rows;
}

}  // namespace

const CellFactory* find_cell(std::string_view name) {
  for (const NamedCell& row : named_cells())
    if (row.name == name) return &row.factory;
  return nullptr;
}

std::vector<std::string> cell_names() {
  std::vector<std::string> names;
  for (const NamedCell& row : named_cells()) names.emplace_back(row.name);
  return names;
}

}  // namespace unroll
