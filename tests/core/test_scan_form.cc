// SPDX-License-Identifier: Apache-2.0
// The form of planned loops: products and their gates, stages and barriers, places of states, independent rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gradient_outputs.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/passes/scan_form.h"

namespace unroll::test_scan_form {
namespace {

constexpr std::int64_t T = 5, B = 6, I = 8, H = 16;

struct Planned {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::shared_ptr<const Plan> plan;
  std::vector<ScanForm> forms;  // of its loops, in order

  explicit Planned(const std::function<void(Graph&)>& build, std::vector<std::string> without = {}) {
    build(*graph);
    plan = unroll::plan(*graph, *make_backend("cpu", {.threads = 2}), {.without = std::move(without)});
    for (std::size_t i = 0; i < plan->graph->nodes().size(); ++i)
      if (plan->graph->nodes()[i].op == Op::scan) forms.push_back(scan_form(*plan, static_cast<std::int32_t>(i)));
  }
};

// The loops of a cell, forward, then backward if `trains`.
Planned loops_of(RecurrentModelOptions options, bool trains) {
  return Planned([&](Graph& graph) {
    Scope scope(graph);
    const Value x = graph.input("x", {DType::f32, {T, B, I}});
    const Value y = recurrent_model(scope, x, options).y;
    if (!trains) return graph.output("y", y);
    testing::output_gradients(scope, mean(square(y)));
  });
}

TEST_CASE("the form of a built-in cell: one product by the recurrent weight, its gates, one barrier a step") {
  struct Row {
    std::string cell;
    std::int64_t gates;
    std::size_t states;
  };
  for (const Row& row : {Row{"rnn", 1, 1}, Row{"gru", 3, 1}, Row{"lstm", 4, 2}}) {
    CAPTURE(row.cell);
    const Planned p = loops_of({.cell = row.cell, .hidden = H}, /*trains=*/true);
    REQUIRE(p.forms.size() == 2);
    for (const ScanForm& form : p.forms) {
      CHECK(form.reason == "");
      CHECK(form.exchanges() == 1);
      CHECK(form.rows == B);
      REQUIRE(form.products.size() == 1);
      CHECK(form.products[0].m == B);
    }
    const ScanForm::Product &forward = p.forms[0].products[0], &backward = p.forms[1].products[0];
    CHECK(forward.k == H);
    CHECK(forward.n == row.gates * H);
    CHECK(forward.gates == row.gates);
    CHECK(forward.units == H);
    CHECK(backward.k == row.gates * H);
    CHECK(backward.n == H);
    CHECK(p.forms[0].states.size() == row.states);
    CHECK(p.forms[0].stages.size() == 1);  // the product and what reads its columns; then h is read by all
    CHECK(p.forms[1].stages.size() == 2);  // gate gradients, then their product
  }
}

TEST_CASE("a product that reads what the step computed needs a barrier of its own") {
  const Planned p = loops_of({.cell = "gru", .hidden = H, .reset_after = false}, /*trains=*/false);
  REQUIRE(p.forms.size() == 1);
  CHECK(p.forms[0].products.size() == 2);  // of h, and of r * h
  CHECK(p.forms[0].stages.size() == 2);
  CHECK(p.forms[0].exchanges() == 2);
}

// A loop over x [T,B,H] with one state h [B,H], whose next value is the step's and its output.
Planned loop_of(const std::function<Value(Value h, Value x)>& step, std::vector<std::string> without = {}) {
  const auto build = [&](Graph& graph) {
    const Value states[] = {graph.input("h0", {DType::f32, {B, H}})};
    const Value sequences[] = {graph.input("x", {DType::f32, {T, B, H}})};
    const ScanResult result = scan(states, sequences, {}, [&](const StepValues& in) -> StepResult {
      const Value next = step(in.states[0], in.sequences[0]);
      return {{next}, {next}};
    });
    graph.output("y", result.outputs[0]);
  };
  return Planned(build, std::move(without));
}

TEST_CASE("a pointwise loop needs no barrier, and its state lives in the output that keeps it") {
  const Planned p = loop_of([](Value h, Value x) { return tanh(h + x); });
  REQUIRE(p.forms.size() == 1);
  const ScanForm& form = p.forms[0];
  CHECK(form.exchanges() == 0);
  CHECK(form.products.empty());
  CHECK(form.states.at(0).after == 1);
  CHECK(form.rows == B);
}

TEST_CASE("a sum over units reads units of all workers; one number per row is computed by each") {
  const Planned p = loop_of([](Value h, Value x) { return tanh(x + h * sigmoid(reduce_sum(square(h), {1}, true))); });
  REQUIRE(p.forms.size() == 1);
  CHECK(p.forms[0].exchanges() == 1);  // h of the step before
  CHECK(p.forms[0].rows == B);
}

TEST_CASE("layer norms within a step leave rows independent") {
  for (const bool trains : {false, true}) {
    const Planned p = loops_of({.cell = "lnlstm", .hidden = 64}, trains);
    const auto own_rows = [](const ScanForm& form) { return form.rows == B; };
    CHECK(std::count_if(p.forms.begin(), p.forms.end(), own_rows) == (trains ? 2 : 1));
  }
}

TEST_CASE("rows depend on each other when a step mixes them") {
  const Planned p = loop_of([](Value h, Value x) { return tanh(x + h - reduce_max(h, {0}, true)); });
  REQUIRE(p.forms.size() == 1);
  CHECK(p.forms[0].rows == 0);
}

TEST_CASE("a sum over no axis, as it stands without the passes that remove it, keeps rows apart") {
  const Planned p = loop_of([](Value h, Value x) { return tanh(x + reduce_sum(h, Ints{})); }, {"fold"});
  REQUIRE(p.forms.size() == 1);
  CHECK(p.forms[0].rows == B);
}

TEST_CASE("a step that contains a loop has no form, and the reason says so") {
  const Planned p = loop_of([](Value h, Value x) {
    const Value states[] = {h};
    const Value steps[] = {stack(std::vector{x, h})};
    return scan(states, steps, {}, [](const StepValues& in) -> StepResult {
             return {{tanh(in.states[0] + in.sequences[0])}, {}};
           }).states[0];
  });
  REQUIRE(p.forms.size() == 1);
  CHECK(p.forms[0].reason == "a step contains a loop");
  CHECK(describe(p.forms[0], *p.plan) == std::vector<std::string>{"no scan form: a step contains a loop"});
}

TEST_CASE("rows stay apart where fused reductions add up some of them, which go together") {
  const Planned p = loops_of({.cell = "lnlstm", .hidden = H}, /*trains=*/true);
  REQUIRE(p.forms.size() == 2);
  CHECK(p.forms[0].rows == B);
  CHECK(p.forms[0].row_unit == 1);
  CHECK(p.forms[1].rows == B);
  CHECK(p.forms[1].row_unit == 6);
  for (std::size_t i = 0; i < p.plan->graph->nodes().size(); ++i)
    if (p.plan->bodies[i]) {
      const auto& form = p.forms[p.plan->graph->nodes()[i].attributes.get<bool>("reverse") ? 1 : 0];
      CHECK(describe(form, *p.plan->bodies[i]).back() ==
            (form.row_unit == 6 ? "6 independent rows, summed by 6" : "6 independent rows"));
    }
}

TEST_CASE("a form is described line by line") {
  const Planned p = loops_of({.cell = "lstm", .hidden = H}, /*trains=*/false);
  for (std::size_t i = 0; i < p.plan->graph->nodes().size(); ++i) {
    if (p.plan->graph->nodes()[i].op != Op::scan) continue;
    const std::vector<std::string> lines = describe(p.forms.at(0), *p.plan->bodies[i]);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].find("[6,16] by weight 0 [64,16], 4 gates of 16 units") != std::string::npos);
    CHECK(lines[1].find("; barrier") != std::string::npos);
    CHECK(lines[2].find("states: ") == 0);
    CHECK(lines[3] == "6 independent rows");
  }
}

}  // namespace
}  // namespace unroll::test_scan_form
