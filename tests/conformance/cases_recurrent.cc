// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM as composites: all options pairwise, T = 1..7 and the edges of B.
#include <algorithm>

#include "tests/conformance/families.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

namespace {

struct Sizes {
  std::int64_t T, B, I, H;
};

// What one layer in one direction needs, as inputs named like PyTorch's.
void add_parameters(Graph& g, DType d, Op cell, const RecurrentOptions& o, std::int64_t width_in,
                    const std::string& suffix, std::vector<Value>& parameters) {
  const std::int64_t gates = cell == Op::lstm ? 4 : cell == Op::gru ? 3 : 1;
  const std::int64_t P = o.projection > 0 ? o.projection : o.hidden;
  const auto add = [&](const std::string& name, Shape shape) {
    parameters.push_back(g.input(name + suffix, {d, shape}));
  };
  add("weight_ih", {gates * o.hidden, width_in});
  add("weight_hh", {gates * o.hidden, P});
  if (o.bias) {
    add("bias_ih", {gates * o.hidden});
    add("bias_hh", {gates * o.hidden});
  }
  if (o.projection > 0) add("weight_hr", {P, o.hidden});
  if (o.peephole)
    for (const char* name : {"weight_ci", "weight_cf", "weight_co"}) add(name, {o.hidden});
}

struct Layer {
  Op cell;
  RecurrentOptions options;
  bool lengths = false;
};

void build_layer(Graph& g, DType d, const Layer& layer, const Sizes& s) {
  const RecurrentOptions& o = layer.options;
  const std::int64_t D = o.bidirectional ? 2 : 1, P = o.projection > 0 ? o.projection : o.hidden;
  RecurrentInputs in;
  in.x = g.input("x", {d, {s.T, s.B, s.I}});
  in.h0 = g.input("h0", {d, {o.layers * D, s.B, P}});
  if (layer.cell == Op::lstm) in.c0 = g.input("c0", {d, {o.layers * D, s.B, o.hidden}});
  if (layer.lengths) in.lengths = g.input("lengths", {DType::i32, {s.B}});
  if (o.dropout > 0) in.key = g.input("key", {DType::i32, {3}});
  for (int l = 0; l < o.layers; ++l)
    for (std::int64_t k = 0; k < D; ++k)
      add_parameters(g, d, layer.cell, o, l == 0 ? s.I : D * P, "_l" + std::to_string(l) + (k == 1 ? "_reverse" : ""),
                     in.parameters);
  const RecurrentResult r = recurrent(layer.cell, in, o);
  g.output("y", r.y);
  g.output("hn", r.hn);
  if (r.cn) g.output("cn", r.cn);
}

std::string text(const Layer& layer, const Sizes& s) {
  const RecurrentOptions& o = layer.options;
  std::string name(op_info(layer.cell).name);
  const auto add = [&](bool on, const std::string& word) { name += on ? " " + word : ""; };
  add(o.layers > 1, std::to_string(o.layers) + " layers");
  add(o.bidirectional, "bidirectional");
  add(!o.bias, "no bias");
  add(o.relu, "relu");
  add(!o.reset_after, "reset before");
  add(o.projection > 0, "projection");
  add(o.peephole, "peephole");
  add(o.dropout > 0, "dropout");
  add(layer.lengths, "lengths");
  return name + " T=" + std::to_string(s.T) + " B=" + std::to_string(s.B) + " H=" + std::to_string(s.H);
}

void add_case(Cases& cases, Layer layer, const Sizes& s, bool with_gradient) {
  layer.options.hidden = s.H;
  std::map<std::string, Range> ranges{{"lengths", between(0, static_cast<double>(s.T))}, {"key", between(0, 99999)}};
  Graph probe;
  build_layer(probe, DType::f32, layer, s);
  // Weights of the size that default initialization gives, so that gates do not saturate.
  for (const NamedValue& input : probe.inputs())
    if (input.name.rfind("weight", 0) == 0 || input.name.rfind("bias", 0) == 0) ranges[input.name] = between(-0.7, 0.7);
  const int depth = static_cast<int>((s.I + s.H) * std::max<std::int64_t>(s.T, 1) * layer.options.layers);
  // relu has a kink that a trajectory may cross: its gradient is covered by the elementwise cases.
  cases.push_back({.name = text(layer, s),
                   .build = [=](Graph& g, DType d) { build_layer(g, d, layer, s); },
                   .ranges = ranges,
                   .agreement = {Rule::norm, depth},
                   .differentiable = with_gradient && !layer.options.relu,
                   .constant_output = s.B == 0 || s.T == 0 || layer.lengths || layer.options.relu});
}

// Each row switches some options on; together every pair of options that go together occurs.
std::vector<Layer> layers_of(Op cell) {
  std::vector<RecurrentOptions> rows(6);
  rows[1].layers = 2;
  rows[2].bidirectional = true;
  rows[3].bias = false;
  rows[4].layers = 2, rows[4].bidirectional = true, rows[4].dropout = 0.25;
  rows[5].layers = 3, rows[5].bias = false, rows[5].bidirectional = true;
  std::vector<Layer> layers;
  for (const RecurrentOptions& row : rows)
    for (const bool lengths : {false, true}) {
      layers.push_back({cell, row, lengths});
      const auto vary = [&](auto change) {
        layers.push_back({cell, row, lengths});
        change(layers.back().options);
      };
      if (cell == Op::rnn) vary([](RecurrentOptions& o) { o.relu = true; });
      if (cell == Op::gru) vary([](RecurrentOptions& o) { o.reset_after = false; });
      if (cell != Op::lstm) continue;
      vary([](RecurrentOptions& o) { o.projection = 2; });
      vary([](RecurrentOptions& o) { o.peephole = true; });
      vary([](RecurrentOptions& o) { o.projection = 2, o.peephole = true; });
    }
  return layers;
}

}  // namespace

void add_recurrent_cases(Cases& cases) {
  for (const Op cell : {Op::rnn, Op::gru, Op::lstm}) {
    for (const Layer& layer : layers_of(cell)) add_case(cases, layer, {3, 2, 2, 3}, true);
    for (std::int64_t T = 1; T <= 7; ++T) add_case(cases, {cell, {}, true}, {T, 3, 2, 3}, true);
    add_case(cases, {cell, {}}, {4, 1, 1, 1}, true);
    add_case(cases, {cell, {}}, {0, 2, 2, 3}, true);
    add_case(cases, {cell, {}}, {3, 0, 2, 3}, true);
    // Sizes that fill vectors, blocks and threads, with rests.
    Layer both{cell, {}, true};
    both.options.bidirectional = true;
    both.options.layers = 2;
    add_case(cases, both, {11, 9, 13, 37}, false);
    add_case(cases, {cell, {}}, {6, 33, 40, 64}, false);
  }
}

}  // namespace unroll::testing
