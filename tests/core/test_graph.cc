// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/core/op_examples.h"
#include "tests/support/text.h"
#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

const Type k_matrix{DType::f32, {2, 3}};

template <class F>
std::string refusal(F f, ErrorKind kind) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("inputs and outputs are found by name, in order of creation") {
  Graph g;
  const Value a = g.input("a", k_matrix), b = g.input("b", k_matrix);
  const Value sum = a + b;
  g.output("sum", sum);
  g.output("again", sum);
  CHECK(g.find_input("b") == b);
  CHECK(!g.find_input("c"));
  CHECK(g.find_output("again") == sum);
  CHECK(!g.find_output("a"));
  CHECK(g.inputs()[0].name == "a");
  CHECK(g.outputs()[1].name == "again");
}

TEST_CASE("names are unique and not empty") {
  Graph g;
  const Value a = g.input("a", k_matrix);
  g.output("y", a);
  CHECK(contains(refusal([&] { g.input("a", k_matrix); }, ErrorKind::usage), "'a' is taken"));
  CHECK(contains(refusal([&] { g.input("", k_matrix); }, ErrorKind::usage), "needs a name"));
  CHECK(contains(refusal([&] { g.output("y", a); }, ErrorKind::usage), "'y' is taken"));
  CHECK(contains(refusal([&] { g.output("", a); }, ErrorKind::usage), "needs a name"));
  CHECK(g.nodes().size() == 1);
}

TEST_CASE("values of another graph and empty values are refused") {
  Graph g, other;
  const Value a = g.input("a", k_matrix), b = other.input("b", k_matrix);
  CHECK(contains(refusal([&] { add(a, b); }, ErrorKind::usage), "operand 1"));
  CHECK(contains(refusal([&] { add(a, Value()); }, ErrorKind::usage), "operand 1"));
  CHECK(contains(refusal([&] { add(Value(), a); }, ErrorKind::usage), "operand 0 is empty"));
  CHECK(contains(refusal([&] { g.output("y", b); }, ErrorKind::usage), "another graph"));
  CHECK(contains(refusal([] { Value().type(); }, ErrorKind::usage), "empty value"));
}

TEST_CASE("a refused node leaves the graph as it was") {
  for (const OpExample& e : wrong_examples()) {
    if (e.op == Op::input || e.op == Op::constant) continue;
    Graph g;
    std::vector<Value> in;
    for (const Type& type : e.inputs) in.push_back(g.input("x" + std::to_string(in.size()), type));
    CHECK_THROWS_AS(g.append(e.op, in, e.attributes, e.body), Error);
    CHECK(g.nodes().size() == e.inputs.size());
  }
}

TEST_CASE("attributes are read by name and kind") {
  const Attributes a{{"axis", std::int64_t{1}}, {"keep", true}};
  CHECK(a.get<std::int64_t>("axis") == 1);
  CHECK(a.get_or<double>("epsilon", 0.5) == 0.5);
  CHECK(contains(refusal([&] { a.get<bool>("reverse"); }, ErrorKind::graph), "'reverse' is missing"));
  CHECK(contains(refusal([&] { a.get<double>("axis"); }, ErrorKind::graph), "'axis' has the wrong type"));
  CHECK(contains(refusal([&] { a.get_or<double>("axis", 0); }, ErrorKind::graph), "'axis' has the wrong type"));
  Attributes b = a;
  CHECK(a == b);
  b.erase("keep");
  CHECK(!(a == b));
}

TEST_CASE("tensors in attributes are compared by content") {
  const auto tensor = [](float second) -> Attribute {
    return std::make_shared<const Tensor>(Tensor::from(Shape{2}, std::vector<float>{1, second}));
  };
  CHECK(Attributes{{"value", tensor(2)}} == Attributes{{"value", tensor(2)}});
  CHECK(!(Attributes{{"value", tensor(2)}} == Attributes{{"value", tensor(3)}}));
  CHECK(!(Attributes{{"value", tensor(0.f)}} == Attributes{{"value", tensor(-0.f)}}));
}

TEST_CASE("a copy prints the same and leaves out what no output needs") {
  for (const OpExample& e : right_examples()) {
    const auto g = example_graph(e);
    if (g->outputs().empty()) continue;
    CHECK(print_graph(*copy_graph(*g)) == print_graph(*g));
  }
  Graph g;
  const Value a = g.input("a", k_matrix);
  const Value kept = neg(a);
  tanh(a);
  g.output("y", kept);
  const auto copy = copy_graph(g);
  CHECK(copy->nodes().size() == 2);
  CHECK(copy->inputs().size() == 1);
}

TEST_CASE("a graph is inlined with values standing for its inputs") {
  Graph source;
  const Value a = source.input("a", k_matrix), b = source.input("b", k_matrix);
  source.output("difference", a - b);
  source.output("first", a);

  Graph target;
  const Value x = target.input("x", k_matrix);
  const Value both[] = {x, x};
  const std::vector<Value> out = inline_graph(target, source, both);
  CHECK(out[0].node().op == Op::sub);
  CHECK(out[1] == x);
  const Value one[] = {x};
  CHECK(contains(refusal([&] { inline_graph(target, source, one); }, ErrorKind::usage), "takes 2 inputs; got 1"));
  const Value wrong[] = {x, neg(target.input("z", {DType::f32, {2}}))};
  CHECK(contains(refusal([&] { inline_graph(target, source, wrong); }, ErrorKind::shape),
                 "input 'b' is f32[2,3]; got f32[2]"));
}

TEST_CASE("the op table is consistent") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < op_table().size(); ++i) {
    const OpInfo& info = op_table()[i];
    CAPTURE(info.name);
    CHECK(static_cast<std::size_t>(info.op) == i);
    CHECK(names.insert(info.name).second);
    CHECK(find_op(info.name) == &info);
    CHECK(info.min_inputs >= 0);
    const bool open = info.max_inputs == -1 || info.max_inputs >= info.min_inputs;
    CHECK(open);
    const bool composite_kind = info.kind == OpKind::composite;
    const bool composite_tier = info.tier == OpTier::composite || info.op == Op::gradient;
    CHECK(composite_kind == composite_tier);
  }
  CHECK(find_op("fly") == nullptr);
  CHECK(is_elementwise(Op::cast));
  CHECK(!is_elementwise(Op::reshape));
}

TEST_CASE("functions that need no node append none") {
  Graph g;
  const Value x = g.input("x", k_matrix);
  CHECK(cast(x, DType::f32) == x);
  CHECK(reshape(x, {2, 3}) == x);
  CHECK(broadcast(x, {2, 3}) == x);
  const Value one[] = {x};
  CHECK(concat(one, 1) == x);
  CHECK(g.nodes().size() == 1);
}

TEST_CASE("axes count from the end and parts are equal") {
  Graph g;
  const Value x = g.input("x", {DType::f32, {2, 6}});
  CHECK(slice(x, -1, 1, 2).shape() == Shape{2, 2});
  CHECK(pad(x, -2, 1, 0).shape() == Shape{3, 6});
  CHECK(argmax(x, -1).shape() == Shape{2});
  const auto parts = split(x, -1, 3);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].shape() == Shape{2, 2});
  CHECK(parts[2].node().attributes.get<std::int64_t>("start") == 4);
  CHECK(contains(refusal([&] { split(x, 1, 4); }, ErrorKind::shape), "6 elements do not split into 4"));
  CHECK(stack(parts).shape() == Shape{3, 2, 2});
  CHECK(row(x, 1).shape() == Shape{6});
  CHECK(linear(g.input("y", {DType::f32, {4, 2, 3}}), g.input("w", {DType::f32, {5, 3}})).shape() == Shape{4, 2, 5});
}

TEST_CASE("a scan without sequences needs its number of steps") {
  Graph g;
  const Value states[] = {g.input("h", {DType::f32, {3}})};
  const auto halve = [](const StepValues& v) -> StepResult { return {{v.states[0] * 0.5}, {v.states[0]}}; };
  CHECK(contains(refusal([&] { scan(states, {}, {}, halve); }, ErrorKind::usage), "options.steps"));
  ScanOptions options;
  options.steps = 7;
  const ScanResult r = scan(states, {}, {}, halve, options);
  CHECK(r.outputs[0].shape() == Shape{7, 3});
  const ScanLayout layout = scan_layout(r.outputs[0].node());
  CHECK(layout.steps == 7);
  CHECK(layout.n_inputs() == 1);
  const auto forgets = [](const StepValues&) -> StepResult { return {}; };
  CHECK(contains(refusal([&] { scan(states, {}, {}, forgets, options); }, ErrorKind::usage), "0 states of 1"));
}
