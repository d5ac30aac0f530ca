// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "core/ir/graph_edit.h"
#include "core/ir/ops/attribute_table.h"
#include "core/ir/ops/composite.h"
#include "core/ir/verify.h"
#include "tests/core/op_examples.h"
#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace test_verify {

using namespace unroll;

namespace {

// %0 a [2,3], %1 b [2,3], %2 add, %3 transpose, %4 constant; outputs sum, turned.
std::shared_ptr<Graph> sample() {
  auto g = std::make_shared<Graph>();
  const Value a = g->input("a", {DType::f32, {2, 3}}), b = g->input("b", {DType::f32, {2, 3}});
  const Value sum = a + b;
  g->output("sum", sum);
  g->output("turned", transpose(sum, {1, 0}));
  scalar(*g, DType::f32, 1);
  return g;
}
// %0 h [3], %1 x [4,3], %2 scan.
std::shared_ptr<Graph> sample_scan() {
  auto g = std::make_shared<Graph>();
  const Value states[] = {g->input("h", {DType::f32, {3}})}, sequences[] = {g->input("x", {DType::f32, {4, 3}})};
  const auto r = scan(states, sequences, {}, [](const StepValues& v) -> StepResult {
    return {{v.states[0] + v.sequences[0]}, {}};
  });
  g->output("h", r.states[0]);
  return g;
}
std::shared_ptr<Graph> body_of(const std::function<Value(Value)>& function) {
  auto g = std::make_shared<Graph>();
  g->output("y", function(g->input("a", {DType::f32, {2, 3}})));
  return g;
}

struct Broken {
  int rule;
  std::string what;
  std::shared_ptr<Graph> (*start)();
  std::function<void(Graph&)> damage;
  Stage stage = Stage::built;
};

Node& node(Graph& g, std::size_t id) { return GraphEdit::nodes(g)[id]; }

const std::vector<Broken>& broken_graphs() {
  static const std::vector<Broken> k_list{
      {1, "an op outside the table", sample, [](Graph& g) { node(g, 2).op = static_cast<Op>(9999); }},
      {2, "an operand of a later node", sample,
       [](Graph& g) {
         node(g, 2).inputs[1] = {3, 0};
       }},
      {2, "itself as operand", sample,
       [](Graph& g) {
         node(g, 2).inputs[1] = {2, 0};
       }},
      {2, "a negative node", sample,
       [](Graph& g) {
         node(g, 2).inputs[0] = {-1, 0};
       }},
      {2, "an output the node lacks", sample,
       [](Graph& g) {
         node(g, 2).inputs[0] = {0, 1};
       }},
      {3, "an operand too few", sample, [](Graph& g) { node(g, 2).inputs.pop_back(); }},
      {3, "an operand too many", sample,
       [](Graph& g) {
         node(g, 2).inputs.push_back({0, 0});
       }},
      {4, "a missing attribute", sample, [](Graph& g) { node(g, 3).attributes.erase("permutation"); }},
      {4, "an attribute of another kind", sample, [](Graph& g) { node(g, 3).attributes.set("permutation", 1.0); }},
      {4, "an unknown attribute", sample, [](Graph& g) { node(g, 2).attributes.set("axis", std::int64_t{0}); }},
      {4, "a null tensor", sample,
       [](Graph& g) { node(g, 4).attributes.set("value", std::shared_ptr<const Tensor>()); }},
      {5, "a body where none belongs", sample,
       [](Graph& g) { node(g, 2).body = body_of([](Value a) { return neg(a); }); }},
      {5, "a scan without body", sample_scan, [](Graph& g) { node(g, 2).body = nullptr; }},
      {6, "another body", sample_scan, [](Graph& g) { node(g, 2).body = body_of([](Value a) { return neg(a); }); }},
      {6, "more states than operands", sample_scan,
       [](Graph& g) { node(g, 2).attributes.set("states", std::int64_t{3}); }},
      {7, "a transpose in a fused body",
       [] {
         auto g = std::make_shared<Graph>();
         const Value a[] = {g->input("a", {DType::f32, {2, 3}})};
         g->append(Op::fused, a, {}, body_of([](Value v) { return neg(v); }));
         return g;
       },
       [](Graph& g) { node(g, 1).body = body_of([](Value v) {
                        return transpose(v, {1, 0});
                      }); }},
      {13, "a sum over rows in the body of a fused reduction",
       [] {
         auto g = std::make_shared<Graph>();
         const Value a[] = {g->input("a", {DType::f32, {2, 3}})};
         g->append(Op::fused_reduction, a, {}, body_of([](Value v) { return neg(v); }));
         return g;
       },
       [](Graph& g) { node(g, 1).body = body_of([](Value v) { return reduce_sum(v, {0}, true); }); }},
      {8, "another output shape", sample,
       [](Graph& g) {
         node(g, 3).outputs[0].shape = Shape{2, 3};
       }},
      {8, "another output dtype", sample, [](Graph& g) { node(g, 2).outputs[0].dtype = DType::i32; }},
      {8, "an output too many", sample, [](Graph& g) { node(g, 4).outputs.push_back({}); }},
      {8, "operands that do not fit", sample, [](Graph& g) { node(g, 3).attributes.set("permutation", Ints{0}); }},
      {9, "an input that is not listed", sample, [](Graph& g) { GraphEdit::inputs(g).pop_back(); }},
      {9, "inputs in another order", sample,
       [](Graph& g) { std::swap(GraphEdit::inputs(g)[0], GraphEdit::inputs(g)[1]); }},
      {9, "a name twice", sample,
       [](Graph& g) {
         node(g, 1).attributes.set("name", "a");
         GraphEdit::inputs(g)[1].name = "a";
       }},
      {9, "a listed node that is no input", sample,
       [](Graph& g) {
         GraphEdit::inputs(g).push_back({"c", {2, 0}});
       }},
      {10, "an output that does not exist", sample,
       [](Graph& g) {
         GraphEdit::outputs(g)[0].value = {7, 0};
       }},
      {10, "an output name twice", sample, [](Graph& g) { GraphEdit::outputs(g)[0].name = "turned"; }},
      {10, "an output without name", sample, [](Graph& g) { GraphEdit::outputs(g)[0].name = ""; }},
      {11, "a composite after planning",
       [] {
         auto g = std::make_shared<Graph>();
         softmax(g->input("a", {DType::f32, {2, 3}}));
         return g;
       },
       [](Graph&) {}, Stage::planned},
      {11, "a composite in a body after planning", sample_scan,
       [](Graph& g) {
         auto body = std::make_shared<Graph>();
         const Value h = body->input("h", {DType::f32, {3}});
         body->input("x", {DType::f32, {3}});
         body->output("next", softmax(h));
         node(g, 2).body = body;
       },
       Stage::planned},
      {12, "bodies too deep",
       [] {
         auto g = body_of([](Value a) { return neg(a); });
         for (int i = 0; i < 65; ++i) {
           auto outer = std::make_shared<Graph>();
           const Value a[] = {outer->input("a", {DType::f32, {2, 3}})};
           const Attributes once{
               {"steps", std::int64_t{1}}, {"states", std::int64_t{1}}, {"sequences", std::int64_t{0}}};
           outer->output("y", outer->append_one(Op::scan, a, once, g));
           g = outer;
         }
         return g;
       },
       [](Graph&) {}},
  };
  return k_list;
}

std::string conventions() {
  std::ifstream file(UNROLL_DOCS "/conventions.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(!page.empty());
  return page;
}

std::string refusal(const Graph& graph, Stage stage) {
  try {
    verify(graph, stage);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::graph);
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("each broken graph is refused by the rule it breaks") {
  for (const Broken& broken : broken_graphs()) {
    CAPTURE(broken.what);
    const auto graph = broken.start();
    if (broken.rule < 11) CHECK_NOTHROW(verify(*graph, broken.stage));
    broken.damage(*graph);
    const std::string said = refusal(*graph, broken.stage);
    CAPTURE(said);
    CHECK(said.rfind("[verify] R" + std::to_string(broken.rule) + ": ", 0) == 0);
  }
}

TEST_CASE("rules are numbered from 1 and each has a broken graph") {
  std::set<int> broken;
  for (const Broken& b : broken_graphs()) broken.insert(b.rule);
  int number = 0;
  for (const VerifyRule& rule : verify_rules()) {
    CHECK(rule.number == ++number);
    CHECK_MESSAGE(broken.count(rule.number) == 1, rule.text);
  }
  CHECK(static_cast<int>(broken.size()) == number);
}

TEST_CASE("every example and every body is legal") {
  for (const OpExample& e : right_examples()) {
    CAPTURE(op_info(e.op).name);
    CHECK_NOTHROW(verify(*example_graph(e)));
    if (find_composite(e.op)) CHECK_NOTHROW(verify(*build_composite(e.op, e.inputs, e.attributes)));
  }
}

TEST_CASE("the examples have exactly the attributes of the table") {
  for (const OpExample& e : right_examples()) {
    std::set<std::string> table, planned, given;
    for (const AttributeSpec& spec : attributes_of(e.op))
      (spec.planned ? planned : table).insert(std::string(spec.name));
    for (const auto& [name, value] : e.attributes.all())
      if (planned.count(name) == 0) given.insert(name);
    CHECK_MESSAGE(table == given, op_info(e.op).name);
  }
}

TEST_CASE("a claimed composite may stay after planning") {
  Graph g;
  softmax(g.input("a", {DType::f32, {2, 3}}));
  node(g, 1).attributes.set("claimed", true);
  CHECK_NOTHROW(verify(g, Stage::planned));
}

TEST_CASE("the example of the text form in docs/conventions.md prints as it stands there") {
  const std::string page = conventions();
  const std::size_t start = page.find("```\ngraph {") + 4, end = page.find("```", start);
  const std::string text = page.substr(start, end - start);
  CHECK(print_graph(*parse_graph(text)) == text);
}

TEST_CASE("docs/conventions.md lists every rule and every attribute") {
  const std::string page = conventions();
  for (const VerifyRule& rule : verify_rules()) {
    const std::string line = "- **R" + std::to_string(rule.number) + "** " + std::string(rule.text) + "\n";
    CHECK_MESSAGE(page.find(line) != std::string::npos, line);
  }
  for (const OpInfo& info : op_table()) {
    std::string row;  // the table row of the op
    for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) {
      const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
      const std::string first = line.substr(0, line.find('|', 1));
      if (first.find("`" + std::string(info.name) + "`") != std::string::npos) row += line;
    }
    CHECK_MESSAGE(!row.empty(), info.name);
    if (row.find("{...") != std::string::npos || row.find("as `rnn`") != std::string::npos) continue;
    for (const AttributeSpec& spec : attributes_of(info.op))
      if (!spec.planned) CHECK_MESSAGE(row.find(spec.name) != std::string::npos, info.name << " " << spec.name);
  }
}

}  // namespace test_verify
