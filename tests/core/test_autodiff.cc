// SPDX-License-Identifier: Apache-2.0
// The structure of gradients: what is emitted, what is saved, what is refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/autodiff/accumulate.h"
#include "core/autodiff/rules.h"
#include "core/autodiff/saved.h"
#include "core/ir/ops/composite.h"
#include "tests/core/small_graphs.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace test_autodiff {

using namespace unroll;
using namespace unroll::testing;

namespace {

using Values = std::vector<Value>;

std::vector<const Node*> nodes_of(const Graph& graph, Op op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes())
    if (node.op == op) found.push_back(&node);
  return found;
}
std::size_t count(const Graph& graph, Op op) { return nodes_of(graph, op).size(); }

ErrorKind kind_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::internal;
}

// The scans of a recurrent layer and its gradient: as written, [without masks,] with saved values, backward.
struct Scans {
  const Node& plain;
  const Node& saving;
  const Node& backward;
  std::size_t n_saved() const { return saving.outputs.size() - plain.outputs.size(); }
};
Scans scans_of(const Graph& graph) {
  const auto scans = nodes_of(graph, Op::scan);
  REQUIRE(scans.size() >= 3);
  return {*scans[0], *scans[scans.size() - 2], *scans.back()};
}

constexpr std::int64_t T = 5, B = 3, H = 4;

// Parameters of a composite cell with G gates and the gradients of all of them for a cotangent of y alone.
std::shared_ptr<const Graph> layer_gradient(Op cell, std::int64_t G, bool masked, RecurrentOptions options = {}) {
  Graph g;
  options.hidden = H;
  const std::int64_t P = options.projection > 0 ? options.projection : H;
  RecurrentInputs in;
  in.x = g.input("x", f32({T, B, 2}));
  in.h0 = g.input("h0", f32({1, B, P}));
  if (cell == Op::lstm) in.c0 = g.input("c0", f32({1, B, H}));
  if (masked) in.lengths = g.input("lengths", {DType::i32, {B}});
  in.parameters = {g.input("w_ih", f32({G * H, 2})), g.input("w_hh", f32({G * H, P})), g.input("b_ih", f32({G * H})),
                   g.input("b_hh", f32({G * H}))};
  if (options.projection > 0) in.parameters.push_back(g.input("w_hr", f32({P, H})));
  if (options.peephole)
    for (const char* name : {"w_ci", "w_cf", "w_co"}) in.parameters.push_back(g.input(name, f32({H})));
  const RecurrentResult r = recurrent(cell, in, options);
  differentiate(sum(r.y), in.parameters);
  const auto gradients = nodes_of(g, Op::gradient);
  REQUIRE(gradients.size() == 1);
  return composite_body(g, *gradients[0]);
}

bool all_of_shape(std::span<const Type> types, const Shape& shape) {
  return std::all_of(types.begin(), types.end(), [&](const Type& t) { return t.shape == shape; });
}

}  // namespace

TEST_CASE("every op with gradient 'yes' has a rule, and no other") {
  for (const OpInfo& op : op_table()) {
    CAPTURE(op.name);
    CHECK((find_rule(op.op) != nullptr) == (op.gradient == OpGradient::yes));
  }
}

TEST_CASE("the step of an LSTM saves i, f, g, o, tanh(c'), c and h, and its gate gradients are concatenated") {
  for (const bool masked : {false, true}) {
    CAPTURE(masked);
    const auto body = layer_gradient(Op::lstm, 4, masked);
    const Scans scans = scans_of(*body);
    CHECK(scans.n_saved() == 7);
    CHECK(all_of_shape(std::span(scans.saving.outputs).subspan(2), {T, B, H}));
    CHECK(count(*scans.backward.body, Op::pad) == 0);
    CHECK(count(*scans.backward.body, Op::concat) == 1);
    // One product for dW, one for dh; tanh and sigmoid are not computed again.
    CHECK(count(*scans.backward.body, Op::matmul) == 2);
    CHECK(count(*scans.backward.body, Op::tanh) + count(*scans.backward.body, Op::sigmoid) == 0);
    CHECK(scan_layout(scans.backward).reverse);
  }
}

TEST_CASE(
    "peepholes save nothing more, since c' = f c + i g is cheap; a projection saves nothing more than its output") {
  CHECK(scans_of(*layer_gradient(Op::lstm, 4, false, {.peephole = true})).n_saved() == 7);
  const auto body = layer_gradient(Op::lstm, 4, false, {.projection = 2});
  CHECK(scans_of(*body).n_saved() == 7);
}

TEST_CASE("the step of a GRU saves r, z, n, h and W_hn h; that of a tanh RNN only h, as its output is there already") {
  CHECK(scans_of(*layer_gradient(Op::gru, 3, false)).n_saved() == 5);
  CHECK(scans_of(*layer_gradient(Op::rnn, 1, false)).n_saved() == 1);
}

TEST_CASE("the step of a cell with a layer norm saves the norm's sums: the backward step adds up no row again") {
  Graph g;
  const Value h0 = g.input("h0", f32({B, H})), x = g.input("x", f32({T, B, H}));
  const Value weight = g.input("weight", f32({H})), bias = g.input("bias", f32({H}));
  const ScanResult r = scan(std::vector{h0}, std::vector{x}, std::vector{weight, bias}, [](const StepValues& s) {
    const Value next = tanh(layer_norm(s.sequences[0] + s.states[0], s.constants[0], s.constants[1]));
    return StepResult{{next}, {next}};
  });
  differentiate(sum(r.outputs[0]), std::vector{x});
  const Node& backward = *nodes_of(g, Op::scan).back();
  REQUIRE(scan_layout(backward).reverse);
  CHECK(count(*backward.body, Op::layer_norm) + count(*backward.body, Op::gradient) == 0);
  CHECK(count(*backward.body, Op::sqrt) == 1);        // of [B,1]
  CHECK(count(*backward.body, Op::reduce_sum) == 2);  // of the gradient itself
}

TEST_CASE("a relu RNN saves which elements were above zero as bytes") {
  const auto body = layer_gradient(Op::rnn, 1, false, {.relu = true});
  const Scans scans = scans_of(*body);
  CHECK(scans.n_saved() == 2);
  CHECK(scans.saving.outputs.back().dtype == DType::b8);
}

TEST_CASE("the scan that saves puts out what the plain one does, in the same order") {
  const auto body = layer_gradient(Op::lstm, 4, false);
  const Scans scans = scans_of(*body);
  CHECK(scans.saving.inputs == scans.plain.inputs);
  CHECK(scans.saving.attributes == scans.plain.attributes);
  for (std::size_t k = 0; k < scans.plain.outputs.size(); ++k)
    CHECK(scans.saving.body->outputs()[k].name == scans.plain.body->outputs()[k].name);
}

TEST_CASE("the gradient of a constant of a scan is summed in a state of the backward scan") {
  const auto body = layer_gradient(Op::rnn, 1, false);
  const Node& backward = scans_of(*body).backward;
  CHECK(scan_layout(backward).n_states == 3);  // d_h, d_W and d_b: biases are added inside the step
  CHECK(backward.outputs[1].shape == Shape{H, H});
  CHECK(backward.outputs[2].shape == Shape{H});
}

TEST_CASE("a state that nothing wanted depends on is not carried backward") {
  Graph g;
  const Value a0 = g.input("a0", f32({B})), b0 = g.input("b0", f32({B})), x = g.input("x", f32({T, B}));
  const Value states[] = {a0, b0}, sequences[] = {x};
  const ScanResult r = scan(states, sequences, {}, [](const StepValues& v) {
    return StepResult{{v.states[0] * v.sequences[0], tanh(v.states[1]) * v.sequences[0]}, {}};
  });
  const Value wrt[] = {x};
  differentiate(sum(r.states[0]), wrt);  // the second state has no cotangent
  const auto scans = nodes_of(g, Op::scan);
  CHECK(scan_layout(*scans.back()).n_states == 1);
  CHECK(scan_layout(*scans.back()).n_sequences == 2);  // x and the state before the step
}

TEST_CASE("a scan that saves nothing is not emitted again") {
  Graph g;
  const Value s0 = g.input("s0", f32({B})), x = g.input("x", f32({T, B}));
  const Value states[] = {s0}, sequences[] = {x};
  const ScanResult r = scan(states, sequences, {}, [](const StepValues& v) {
    return StepResult{{v.states[0] + v.sequences[0]}, {}};
  });
  const Value wrt[] = {s0, x};
  differentiate(sum(r.states[0]), wrt);
  CHECK(count(g, Op::scan) == 2);
}

TEST_CASE("what is kept is the smallest set, nearest to the inputs") {
  Graph g;
  const Value x = g.input("x", f32({8})), y = tanh(x);
  const Value slope = 1 - y * y;
  const Value part = slice(x, 0, 0, 2);
  const auto saved = [&](Values used, Values available) {
    std::vector<ValueId> u, a;
    for (const Value& v : used) u.push_back(v.id());
    for (const Value& v : available) a.push_back(v.id());
    return choose_saved(g, u, a);
  };
  CHECK(saved({slope}, {}) == std::vector{y.id()});
  CHECK(saved({slope, y}, {}) == std::vector{y.id()});
  CHECK(saved({part}, {}) == std::vector{part.id()});
  CHECK(saved({part, x}, {}) == std::vector{x.id()});
  CHECK(saved({part, slope}, {x}) == std::vector{y.id()});
  CHECK(saved({part, slope}, {x, y}).empty());
}

TEST_CASE("what is much larger than what it comes from is computed again") {
  Graph g;
  const Value keys = g.input("keys", f32({16, 8})), query = exp(g.input("q", f32({8}))), y = tanh(keys + query);
  const Value wide = g.input("wide", f32({16, 8})), z = tanh(keys + wide);
  const std::vector used{y.id(), z.id()}, constant{keys.id()};
  CHECK(choose_saved(g, used, constant) == std::vector{y.id(), z.id()});
  CHECK(choose_saved(g, used, constant, constant) == std::vector{query.id(), z.id()});
}

TEST_CASE("contributions of slices that cover a value become one concat; others are added") {
  Graph g;
  const Value x = g.input("x", f32({2, 6}));
  const Values parts = split(x, 1, 3);
  const Value wrt[] = {x};
  const Value covered = differentiate(sum(tanh(parts[2]) + tanh(parts[0]) * parts[1]), wrt)[0];
  CHECK(covered.node().op == Op::concat);
  CHECK(covered.node().inputs.size() == 3);
  const Value holes = differentiate(sum(tanh(parts[2]) + parts[0]), wrt)[0];
  CHECK(holes.node().op == Op::add);
  // As many elements as the value has, but the second slice lies inside the first.
  const Value over = slice(x, 1, 0, 4), inside = slice(x, 1, 2, 2);
  CHECK(differentiate(sum(tanh(over)) + sum(tanh(inside)), wrt)[0].node().op == Op::add);
  // The first part twice: its two contributions are added before the concat.
  const Value again = slice(x, 1, 0, 2);
  CHECK(differentiate(sum(parts[2] * again + parts[0] * parts[1]), wrt)[0].node().op == Op::concat);
}

TEST_CASE("a gradient has the type of what it belongs to, whatever was broadcast") {
  Graph g;
  const Value wrt[] = {g.input("a", f32({})), g.input("b", f32({4})), g.input("c", f32({3, 1})),
                       g.input("d", f32({1, 1, 4}))};
  const auto gradients = differentiate(sum(wrt[0] * wrt[1] + wrt[2] / wrt[3]), wrt);
  for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(gradients[i].type() == wrt[i].type());
}

TEST_CASE("what the loss does not depend on, or only through stop_gradient, gets zeros") {
  Graph g;
  const Value wrt[] = {g.input("a", f32({2})), g.input("b", f32({2})), g.input("c", f32({2}))};
  const auto gradients = differentiate(sum(wrt[0] * stop_gradient(wrt[1])), wrt);
  CHECK(gradients[0].node().op == Op::mul);
  CHECK(gradients[1].node().op == Op::broadcast);
  CHECK(gradients[2].node().op == Op::broadcast);
}

TEST_CASE("a value between wrt and loss may itself be a wrt") {
  Graph g;
  const Value x = g.input("x", f32({2})), y = tanh(x);
  const Value wrt[] = {x, y};
  const auto gradients = differentiate(sum(y * y), wrt);
  CHECK(gradients[0].type() == x.type());
  CHECK(gradients[1].node().op == Op::mul);  // (1 + 1) y
}

TEST_CASE(
    "the gradient of a composite is one node that names it, its results with a cotangent and its wanted operands") {
  Graph g;
  const Value x = g.input("x", f32({3, 4})), w = g.input("w", f32({4})), b = g.input("b", f32({4}));
  const Value wrt[] = {b, x};
  differentiate(sum(layer_norm(x, w, b)), wrt);
  const auto found = nodes_of(g, Op::gradient);
  REQUIRE(found.size() == 1);
  const Attributes& attributes = found[0]->attributes;
  CHECK(attributes.get<std::string>("of") == "layer_norm");
  CHECK(attributes.get<Ints>("d_outputs") == Ints{0});
  CHECK(attributes.get<Ints>("d_inputs") == Ints{0, 2});
  CHECK(attributes.get<std::int64_t>("n_inputs") == 3);
  CHECK(attributes.get<double>("epsilon") == 1e-5);
  CHECK(found[0]->inputs.size() == 4);
  CHECK(composite_body(g, *found[0])->outputs().size() == 2);
}

TEST_CASE("what cannot be differentiated is refused by name") {
  Graph g;
  const Value x = g.input("x", f32({2})), n = g.input("n", {DType::i32, {2}});
  const Value floats[] = {x}, ints[] = {n};
  CHECK(kind_of([&] { differentiate(sum(x), ints); }) == ErrorKind::type);
  CHECK(kind_of([&] { differentiate(x, floats); }) == ErrorKind::shape);
  CHECK(kind_of([&] { differentiate(Value(), floats); }) == ErrorKind::usage);
  CHECK(kind_of([&] { differentiate(floats, ints, floats); }) == ErrorKind::shape);
  Graph other;
  const Value elsewhere[] = {other.input("x", f32({2}))};
  CHECK(kind_of([&] { differentiate(sum(x), elsewhere); }) == ErrorKind::usage);

  auto body = std::make_shared<Graph>();
  body->output("y", tanh(body->input("x", f32({2}))));
  const Value fused = g.append_one(Op::fused, floats, {}, body);
  CHECK_THROWS_WITH_AS(differentiate(sum(fused), floats), doctest::Contains("'fused' has no gradient"), Error);
}

}  // namespace test_autodiff
