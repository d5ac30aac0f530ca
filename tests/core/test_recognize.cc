// SPDX-License-Identifier: Apache-2.0
// A cell that is written in another way is the same cell: one plan, whatever random algebra did to its equations; and a
// cell that is nearly an LSTM is none. UNROLL_SEED=n draws other rewrites.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <set>

#include "core/ir/match/recognize.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "tests/support/setting.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/plan_hash.h"
#include "unroll/passes/run.h"

namespace unroll::test_recognize {
namespace {

constexpr std::int64_t T = 6, B = 3, I = 5, H = 4;

using Random = std::mt19937_64;
bool chance(Random& random, int of) { return random() % static_cast<std::uint64_t>(of) == 0; }

// A layer as one of the composites, from PyTorch's parameters.
struct Kind {
  const char* name;
  Op op;
  std::int64_t gates;
  bool reset_after = true;
  bool relu = false;
  int n_states() const { return op == Op::lstm ? 2 : 1; }
};
constexpr Kind k_kinds[] = {{"lstm", Op::lstm, 4},
                            {"gru", Op::gru, 3},
                            {"gru, reset before", Op::gru, 3, false},
                            {"rnn", Op::rnn, 1},
                            {"rnn, relu", Op::rnn, 1, true, true}};

struct Layer {
  Graph graph;
  Value x, h0, c0;
  std::vector<Value> parameters;  // weight_ih, weight_hh, bias_ih, bias_hh

  explicit Layer(const Kind& kind, DType dtype = DType::f32) {
    x = graph.input("x", {dtype, {T, B, I}});
    h0 = graph.input("h0", {dtype, {B, H}});
    if (kind.n_states() == 2) c0 = graph.input("c0", {dtype, {B, H}});
    const std::int64_t rows = kind.gates * H;
    for (const Shape& shape : {Shape{rows, I}, Shape{rows, H}, Shape{rows}, Shape{rows}})
      parameters.push_back(graph.input("w" + std::to_string(parameters.size()), {dtype, shape}));
  }
  // y, and the gradients of a loss over y and the last states.
  void finish(Value y, const std::vector<Value>& states) {
    Value loss = mean(square(y));
    for (const Value& state : states) loss = loss + mean(sin_like(state));
    graph.output("y", y);
    std::vector<Value> wrt = parameters;
    wrt.push_back(x);
    const auto gradients = differentiate(loss, wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i) graph.output("d" + std::to_string(i), gradients[i]);
  }

 private:
  static Value sin_like(Value state) { return tanh(state) * state; }
};

void build_composite_layer(Layer& layer, const Kind& kind) {
  const auto flat = [](Value v) { return reshape(v, {1, B, H}); };
  const auto r = recurrent(kind.op, {.x = layer.x, .h0 = flat(layer.h0), .c0 = layer.c0 ? flat(layer.c0) : Value(),
      .lengths = {},
                                     .key = {}, .parameters = layer.parameters},
                           {.hidden = H, .relu = kind.relu, .reset_after = kind.reset_after});
  std::vector<Value> states(static_cast<std::size_t>(kind.n_states()));
  if (r.cn) states[1] = reshape(r.cn, {B, H});
  states[0] = reshape(r.hn, {B, H});
  layer.finish(r.y, states);
}

// The equations in PyTorch's own words.
StepResult plain_step(const Kind& kind, const StepValues& v) {
  const Value x = v.sequences[0], h = v.states[0];
  const auto &w_ih = v.constants[0], &w_hh = v.constants[1], &b_ih = v.constants[2], &b_hh = v.constants[3];
  const Value from_x = linear(x, w_ih, b_ih);
  if (kind.op == Op::rnn) {
    const Value sum = from_x + linear(h, w_hh, b_hh), next = kind.relu ? relu(sum) : tanh(sum);
    return {{next}, {next}};
  }
  const auto xs = split(from_x, -1, static_cast<int>(kind.gates));
  if (kind.op == Op::lstm) {
    const auto hs = split(linear(h, w_hh, b_hh), -1, 4);
    const auto gate = [&](std::size_t k) { return xs[k] + hs[k]; };
    const Value c = sigmoid(gate(1)) * v.states[1] + sigmoid(gate(0)) * tanh(gate(2));
    const Value next = sigmoid(gate(3)) * tanh(c);
    return {{next, c}, {next}};
  }
  const Value from_h = linear(h, w_hh, b_hh);
  const auto hs = split(from_h, -1, 3);
  const Value r = sigmoid(xs[0] + hs[0]), z = sigmoid(xs[1] + hs[1]);
  const Value n = kind.reset_after ? tanh(xs[2] + r * hs[2])
                                   : tanh(xs[2] + linear(r * h, slice(w_hh, 0, 2 * H, H), slice(b_hh, 0, 2 * H, H)));
  const Value next = (1 - z) * n + z * h;
  return {{next}, {next}};
}

Value operand(Value v, std::size_t i) { return v.graph().value(v.node().inputs[i]); }
bool made_by(Value v, Op op) { return v.node().op == op; }

// One identity at a node whose operands are `x`; empty where none was drawn. Matrices are cut and turned as well.
Value rewritten(const RewriteNode& at, Random& random) {
  const auto x = at.operands;
  switch (at.node.op) {
    case Op::add:
      switch (random() % 5) {
        case 0: return x[1] + x[0];
        case 1: return x[0] - neg(x[1]);
        case 2: return made_by(x[1], Op::add) ? (x[0] + operand(x[1], 0)) + operand(x[1], 1) : Value();
        case 3: return made_by(x[0], Op::add) ? operand(x[0], 0) + (operand(x[0], 1) + x[1]) : Value();
        default: return 0.5 * (2.0 * x[0] + 2.0 * x[1]);
      }
    case Op::sub: return chance(random, 2) ? x[0] + neg(x[1]) : neg(x[1] - x[0]);
    case Op::mul:
      switch (random() % 4) {
        case 0: return x[1] * x[0];
        case 1: return made_by(x[0], Op::add) ? operand(x[0], 0) * x[1] + operand(x[0], 1) * x[1] : Value();
        case 2: return made_by(x[1], Op::mul) ? (x[0] * operand(x[1], 0)) * operand(x[1], 1) : Value();
        default: return neg(neg(x[0]) * x[1]);
      }
    case Op::sigmoid:
      switch (random() % 4) {
        case 0: return 1.0 / (1.0 + exp(neg(x[0])));
        case 1: return 1.0 - sigmoid(neg(x[0]));
        case 2: return 0.5 * tanh(0.5 * x[0]) + 0.5;
        default: return 2.0 / (2.0 * exp(neg(x[0])) + 2.0);
      }
    case Op::tanh: return chance(random, 2) ? 2.0 * sigmoid(2.0 * x[0]) - 1.0 : neg(tanh(neg(x[0])));
    case Op::slice:
      if (made_by(x[0], Op::add) && operand(x[0], 0).shape() == operand(x[0], 1).shape()) {
        const auto part = [&](std::size_t i) { return at.target.append_one(Op::slice, std::vector{operand(x[0], i)},
            at.node.attributes); };
        return part(0) + part(1);
      }
      return {};
    case Op::matmul: {  // x W^T
      const Value w = x[1];
      if (!at.node.attributes.get<bool>("transpose_b") || at.node.attributes.get<bool>("transpose_a")) return {};
      const std::int64_t rows = w.shape()[0], columns = w.shape()[1], gate = rows / H;
      if (rows % H != 0 || columns < 2) return {};
      switch (random() % 4) {
        case 0: return matmul(x[0], transpose(w, {1, 0}));
        case 1: {  // a product per gate
          std::vector<Value> parts;
          for (std::int64_t k = 0; k < gate; ++k) parts.push_back(matmul(x[0], slice(w, 0, k * H, H), {.b = true}));
          return concat(parts, 1);
        }
        case 2: {  // the columns in two parts
          const std::int64_t half = columns / 2;
          const auto part = [&](std::int64_t start, std::int64_t size) { return slice(w, 1, start, size); };
          return matmul(x[0], concat(std::vector{part(0, half), part(half, columns - half)}, 1), {.b = true});
        }
        default: return concat(std::vector{matmul(x[0], slice(w, 0, 0, 1), {.b = true}),
                                           matmul(x[0], slice(w, 0, 1, rows - 1), {.b = true})}, 1);
      }
    }
    default: return {};
  }
}

std::shared_ptr<const Graph> scrambled(const Graph& body, Random& random) {
  std::shared_ptr<const Graph> result = drop_dead(body);
  for (int round = 0; round < 3; ++round)
    result = rewrite(*result, [&](const RewriteNode& at) -> std::vector<Value> {
      if (!chance(random, 3)) return {};
      const Value other = rewritten(at, random);
      return other ? std::vector<Value>{other} : std::vector<Value>{};
    });
  return result;
}

using Body = std::function<std::shared_ptr<const Graph>(const Graph&)>;

void build_written_layer(Layer& layer, const Kind& kind, const Body& change) {
  std::vector<Value> states{layer.h0};
  if (layer.c0) states.push_back(layer.c0);
  Graph scratch;  // the body as it was written
  std::vector<Value> in;
  const auto like = [&](Value v, bool per_step) {
    in.push_back(scratch.input("in" + std::to_string(in.size()),
        {v.dtype(), per_step ? v.shape().removed(0) : v.shape()}));
    return in.back();
  };
  StepValues v;
  for (const Value& state : states) v.states.push_back(like(state, false));
  v.sequences.push_back(like(layer.x, true));
  for (const Value& parameter : layer.parameters) v.constants.push_back(like(parameter, false));
  const StepResult step = plain_step(kind, v);
  for (const Value& state : step.states) scratch.output("s" + std::to_string(scratch.outputs().size()), state);
  scratch.output("y", step.outputs[0]);
  std::vector<Value> operands = states;
  operands.push_back(layer.x);
  operands.insert(operands.end(), layer.parameters.begin(), layer.parameters.end());
  const auto out = scan_body(operands,
                             {{"steps", T}, {"states", static_cast<std::int64_t>(states.size())},
                                 {"sequences", std::int64_t{1}},
                              {"reverse", false}, {"lengths", false}, {"reset", false}},
                             change(scratch));
  layer.finish(out.back(), {out.begin(), out.end() - 1});
}

std::uint64_t hash_of(const Layer& layer) { return plan_hash(*plan(layer.graph,
    *make_backend("cpu", {.threads = 2}))); }

std::uint64_t seed() {
  return testing::setting("UNROLL_SEED", 1);
}

TEST_CASE("random algebra on the equations of a cell does not change its plan") {
  Random random(seed());
  for (const Kind& kind : k_kinds) {
    CAPTURE(kind.name);
    Layer built_in(kind);
    build_composite_layer(built_in, kind);
    const std::uint64_t wanted = hash_of(built_in);
    std::set<std::uint64_t> bodies;
    const int rewrites = kind.op == Op::lstm ? 250 : 60;
    for (int k = 0; k < rewrites; ++k) {
      CAPTURE(k);
      Layer written(kind);
      build_written_layer(written, kind, [&](const Graph& body) {
        auto changed = scrambled(body, random);
        bodies.insert(graph_hash(*changed));
        return changed;
      });
      CHECK(hash_of(written) == wanted);
    }
    CHECK(bodies.size() >= static_cast<std::size_t>(rewrites) * 9 / 10);  // they are different texts
    std::printf("%s: %zu different bodies, one plan %016llx\n", kind.name, bodies.size(),
        static_cast<unsigned long long>(wanted));
  }
}

TEST_CASE("what a rewritten cell computes is what it computes without being recognized") {
  Random random(seed());
  const auto reference = make_backend("reference");
  for (const Kind& kind : k_kinds) {
    CAPTURE(kind.name);
    Layer written(kind, DType::f64);
    build_written_layer(written, kind, [&](const Graph& body) { return scrambled(body, random); });
    TensorMap inputs;
    for (const NamedValue& input : written.graph.inputs()) {
      Tensor values(written.graph.type(input.value));
      for (std::int64_t i = 0; i < values.elements(); ++i)
        values.set(i, std::sin(static_cast<double>(i * i + 1 + static_cast<std::int64_t>(inputs.size()))));
      inputs[input.name] = values;
    }
    const TensorMap with = evaluate(written.graph, *reference, inputs);
    const TensorMap without = evaluate(written.graph, *reference, inputs, {.without = {"recognize"}});
    for (const auto& [name, wanted] : without)
      for (std::int64_t i = 0; i < wanted.elements(); ++i)
        CHECK(with.at(name).at(i) == doctest::Approx(wanted.at(i)).epsilon(1e-11));
  }
}

// The scan of the layer as the passes see it.
bool is_recognized(const Kind& kind, const Body& change) {
  Layer layer(kind);
  build_written_layer(layer, kind, change);
  for (const Node& node : layer.graph.nodes())
    if (node.op == Op::scan) return recognize_scan(layer.graph, node) != nullptr;
  return false;
}
Body replacing(Op op, const std::function<Value(const RewriteNode&)>& with) {
  return [=](const Graph& body) {
    return rewrite(body, [&](const RewriteNode& at) {
      return at.node.op == op ? std::vector<Value>{with(at)} : std::vector<Value>{};
    });
  };
}

TEST_CASE("cells of one unit, whose parts of a bias have one element each, are recognized") {
  for (const char* cell : {"gru_cell", "lstm_cell"}) {
    CAPTURE(cell);
    Graph graph;
    Scope scope(graph);
    const Value x = graph.input("x", {DType::f32, {T, B, I}});
    graph.output("y", recurrent_model(scope, x, {.cell = cell, .hidden = 1}).y);
    TensorMap inputs = initialize(scope.parameters(), 5);
    inputs.emplace("x", Tensor(DType::f32, {T, B, I}));
    for (std::int64_t i = 0; i < T * B * I; ++i) inputs.at("x").set(i, std::cos(static_cast<double>(i)));
    const auto reference = make_backend("reference");
    PlanOptions plain;
    plain.without = {"recognize"};
    const Tensor wanted = Program(graph, *reference, plain).run(inputs).at("y");
    const Tensor got = Program(graph, *reference).run(inputs).at("y");
    for (std::int64_t i = 0; i < wanted.elements(); ++i)
      CHECK(got.at(i) == doctest::Approx(wanted.at(i)).epsilon(1e-6));
  }
}

TEST_CASE("a cell that is nearly one of the library's is none of them") {
  const Kind& lstm = k_kinds[0];
  CHECK(is_recognized(lstm, [](const Graph& body) { return copy_graph(body); }));
  CHECK_FALSE(is_recognized(lstm, replacing(Op::tanh, [](const RewriteNode& at) { return relu(at.operands[0]); })));
  CHECK_FALSE(is_recognized(lstm, replacing(Op::sigmoid,
      [](const RewriteNode& at) { return sigmoid(2.0 * at.operands[0]); })));
  CHECK_FALSE(is_recognized(lstm, replacing(Op::tanh,
      [](const RewriteNode& at) { return tanh(at.operands[0]) + 0.01; })));
  int products = 0;
  CHECK_FALSE(is_recognized(lstm, replacing(Op::mul, [&](const RewriteNode& at) {
    return ++products == 1 ? at.operands[0] * at.operands[1] * at.operands[1] : at.operands[0] * at.operands[1];
  })));
}

TEST_CASE("separate parameters for each gate give the loops of the built-in cell") {
  const auto loops = [](const std::function<Value(Scope, Value)>& network) {
    Graph graph;
    Scope scope(graph, true, DType::f32);
    const Value x = graph.input("x", {DType::f32, {T, B, I}});
    const Value loss = mean(square(network(scope, x)));
    std::vector<Value> wrt;
    for (const ParameterSpec& p : scope.parameters()) wrt.push_back(graph.find_input(p.name));
    for (const Value& d : differentiate(loss, wrt)) graph.output("d" + std::to_string(graph.outputs().size()), d);
    std::multiset<std::uint64_t> hashes;
    const auto lowered = lower(graph, *make_backend("cpu", {.threads = 2}));
    for (const Node& node : lowered->nodes())
      if (node.op == Op::scan) hashes.insert(graph_hash(*node.body));
    return hashes;
  };
  const auto apart = loops([](Scope scope, Value x) {
    const CellFactory factory = [](std::int64_t hidden) {
      return Cell{{hidden, hidden}, [](Step& step) -> CellStep {
                    const std::vector args{step.x(), step.state(0)};
                    const Value o = sigmoid(step.affine("o", args, step.hidden()));
                    const Value f = sigmoid(step.affine("f", args, step.hidden()));
                    const Value i = sigmoid(step.affine("i", args, step.hidden()));
                    const Value c = i * tanh(step.affine("g", args, step.hidden())) + f * step.state(1);
                    return {{o * tanh(c), c}, {}};
                  }};
    };
    return cell_layer(scope, factory, x, {.hidden = H}).y;
  });
  const auto together = loops([](Scope scope, Value x) {
    return recurrent_model(scope, x, {.cell = "lstm", .hidden = H}).y;
  });
  CHECK(apart.size() == 2);
  CHECK(apart == together);
}

}  // namespace
}  // namespace unroll::test_recognize
