// SPDX-License-Identifier: Apache-2.0
#include "core/model/cells/built_in_cells.h"

#include <cmath>

#include "unroll/ir/cell_equations.h"

namespace unroll {

BuiltInWidths BuiltInWidths::of(Op cell, const RecurrentModelOptions& o) {
  const std::int64_t gates = cell == Op::lstm ? 4 : cell == Op::gru ? 3 : 1;
  return {gates, o.hidden, cell == Op::lstm && o.projection > 0 ? o.projection : o.hidden, o.bidirectional ? 2 : 1};
}

namespace {

// Initializers of the parameters. PyTorch draws all from U(-1/sqrt H, 1/sqrt H). xavier and orthogonal draw each gate's
// matrix separately and start biases from zero.
struct Starts {
  Initializer input, recurrent, bias_ih, bias_hh, projection, peephole;
};

Starts starts_of(const BuiltInWidths& w, const RecurrentModelOptions& o) {
  const auto uniform = Initializer::uniform(1 / std::sqrt(static_cast<double>(w.hidden)));
  Starts s{uniform, uniform, uniform, uniform, uniform, uniform};
  if (o.init != RecurrentInit::pytorch) {
    s.input = s.recurrent = s.projection = Initializer::xavier_uniform();
    s.bias_ih = s.bias_hh = s.peephole = Initializer::zeros();
    if (o.init == RecurrentInit::orthogonal) s.recurrent = Initializer::orthogonal();
    s.input.blocks = s.recurrent.blocks = static_cast<int>(w.gates);
  }
  if (w.gates == 4 && o.forget_bias != 0) {
    s.bias_ih.blocks = 4;
    s.bias_ih.shifted_block = 1;
    s.bias_ih.shift = o.forget_bias;
  }
  return s;
}

struct ParameterRow {
  const char* name;
  Shape shape;
  Initializer start;
};

// Returns the parameters of one layer and direction with input width `inputs`.
std::vector<ParameterRow> parameter_rows(Op cell, std::int64_t inputs, const RecurrentModelOptions& o) {
  const BuiltInWidths w = BuiltInWidths::of(cell, o);
  const Starts start = starts_of(w, o);
  const std::int64_t rows = w.gates * w.hidden;
  std::vector<ParameterRow> list{{"weight_ih", {rows, inputs}, start.input},
                                 {"weight_hh", {rows, w.output}, start.recurrent}};
  if (o.bias) {
    list.push_back({"bias_ih", {rows}, start.bias_ih});
    list.push_back({"bias_hh", {rows}, start.bias_hh});
  }
  if (cell == Op::lstm && o.projection > 0) list.push_back({"weight_hr", {o.projection, w.hidden}, start.projection});
  if (cell == Op::lstm && o.peephole)
    for (const char* name : {"weight_ci", "weight_cf", "weight_co"}) list.push_back({name, {w.hidden}, start.peephole});
  return list;
}

// The parameters of a step by name; empty for those disabled by the options.
class StepParameters {
 public:
  StepParameters(Step& step, Op cell, const RecurrentModelOptions& o) {
    for (const ParameterRow& row : parameter_rows(cell, step.x().shape()[1], o))
      values_.emplace_back(row.name, step.parameter(row.name, row.shape, row.start));
  }
  Value operator[](std::string_view name) const {
    for (const auto& [known, value] : values_)
      if (known == name) return value;
    return {};
  }

 private:
  std::vector<std::pair<std::string_view, Value>> values_;
};

// Recurrent dropout on the candidate state or on the previous hidden state.
struct Drops {
  Step& step;
  const RecurrentModelOptions& options;
  Value added(Value x) const {
    return options.mask() == DropoutMask::step ? step.dropout(x, options.recurrent_dropout) : x;
  }
  Value old_state() const {
    const Value h = step.state(0);
    return options.mask() == DropoutMask::step ? h : step.dropout(h, options.recurrent_dropout, DropoutMask::sequence);
  }
};

CellStep rnn_step(Step& step, const RecurrentModelOptions& o) {
  const StepParameters p(step, Op::rnn, o);
  const Value gate = linear(step.x(), p["weight_ih"], p["bias_ih"]) +
                     linear(Drops{step, o}.old_state(), p["weight_hh"], p["bias_hh"]);
  return {{rnn_state(gate, o.nonlinearity == Nonlinearity::relu)}, {}};
}

CellStep gru_step(Step& step, const RecurrentModelOptions& o) {
  const StepParameters p(step, Op::gru, o);
  const std::int64_t H = o.hidden;
  const Drops drops{step, o};
  const Value old = drops.old_state(), bias = p["bias_hh"], weight = p["weight_hh"];
  const auto x = split(linear(step.x(), p["weight_ih"], p["bias_ih"]), -1, 3);
  // Rows [first, first + n) of the recurrent matmul, of H rows each.
  const auto recurrent = [&](Value h, std::int64_t first, std::int64_t n) {
    return linear(h, slice(weight, 0, first * H, n * H), bias ? slice(bias, 0, first * H, n * H) : Value());
  };
  const auto h = split(recurrent(old, 0, 2), -1, 2);
  const auto part_n = [&](Value r) { return o.reset_after ? r * recurrent(old, 2, 1) : recurrent(r * old, 2, 1); };
  return {{gru_state(x, h, step.state(0), part_n, [&](Value n) { return drops.added(n); })}, {}};
}

CellStep lstm_step(Step& step, const RecurrentModelOptions& o) {
  const StepParameters p(step, Op::lstm, o);
  const Drops drops{step, o};
  const auto gate = split(linear(step.x(), p["weight_ih"], p["bias_ih"]) +
                              linear(drops.old_state(), p["weight_hh"], p["bias_hh"]),
                          -1, 4);
  LstmVariant variant{.w_ci = p["weight_ci"], .w_cf = p["weight_cf"], .w_co = p["weight_co"],
                      .d = [&](Value g) { return drops.added(g); }};
  if (o.projection > 0) variant.p = [&](Value h) { return linear(h, p["weight_hr"]); };
  const LstmState next = lstm_state(gate, step.state(1), variant);
  return {{next.h, next.c}, {}};
}

}  // namespace

std::vector<Value> built_in_parameters(Scope& scope, Op cell, std::int64_t inputs, int first,
                                       const RecurrentModelOptions& o) {
  const BuiltInWidths w = BuiltInWidths::of(cell, o);
  std::vector<Value> list;
  for (int layer = first; layer < first + o.layers; ++layer)
    for (std::int64_t d = 0; d < w.directions; ++d) {
      const std::string suffix = "_l" + std::to_string(layer) + (d == 1 ? "_reverse" : "");
      for (const ParameterRow& row : parameter_rows(cell, layer == first ? inputs : w.directions * w.output, o)) {
        const Value value = scope.parameter(row.name + suffix, row.shape, row.start);
        const bool drops = std::string_view(row.name) == "weight_hh";
        list.push_back(drops ? dropout_layer(scope, value, o.weight_drop) : value);
      }
    }
  return list;
}

Cell built_in_cell(Op cell, const RecurrentModelOptions& o) {
  const std::int64_t output = BuiltInWidths::of(cell, o).output;
  if (cell == Op::lstm) return {{output, o.hidden}, [o](Step& step) { return lstm_step(step, o); }};
  if (cell == Op::gru) return {{output}, [o](Step& step) { return gru_step(step, o); }};
  return {{output}, [o](Step& step) { return rnn_step(step, o); }};
}

}  // namespace unroll
