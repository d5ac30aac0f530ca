// SPDX-License-Identifier: Apache-2.0
// What calls are said to cost: exact for a machine that is easy to reckon with.
#include <doctest/doctest.h>

#include <cmath>

#include "backends/cpu/cost/work.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"

namespace unroll {
namespace {

using cpu::Costs;
using cpu::MachineModel;
using cpu::Share;

// Nothing costs anything.
MachineModel no_machine() {
  MachineModel machine{};
  machine.f32.panel_columns = machine.f32.panels_at_once = 32;
  machine.bf16.panel_columns = machine.bf16.panels_at_once = 32;
  machine.f32.tile_rows = 12;
  machine.bf16.tile_rows = 32;
  machine.element_ns.assign(op_table().size(), 0);
  machine.cache_bytes = {1000, 10'000, 100'000, ~std::size_t{0}};
  return machine;
}

struct Planned {
  std::unique_ptr<Backend> backend = make_backend("cpu", {.threads = 2});
  Graph graph;
  std::shared_ptr<const Plan> plan;

  void finish(const Value& y) {
    graph.output("y", y);
    plan = unroll::plan(graph, *backend);
  }
  std::int32_t find(Op op) const {
    std::int32_t found = -1;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(plan->graph->nodes().size()); ++i)
      if (plan->graph->node(i).op == op) found = i;
    REQUIRE(found >= 0);
    return found;
  }
};

TEST_CASE("a product costs its tiles: panels of columns, rows of equal height, each k") {
  MachineModel machine = no_machine();
  for (std::size_t i = 0; i < cpu::k_tile_rows; ++i) {
    machine.f32.first_rows_ns[i] = static_cast<double>(i + 1);
    machine.f32.next_rows_ns[i] = 0.5 * static_cast<double>(i + 1);
  }
  Planned p;
  p.finish(matmul(p.graph.input("a", {DType::f32, {36, 10}}), p.graph.input("b", {DType::f32, {10, 70}})));
  // 3 panels; 12 rows first and twice 12 rows next.
  CHECK(Costs(machine, *p.plan).call_ns(p.find(Op::matmul), Share::calls, 1) == doctest::Approx(3 * 10 * (12 + 6 + 6)));
  SUBCASE("and packing its second operand, each element once") {
    machine.f32.pack_ns = 2;
    CHECK(Costs(machine, *p.plan).call_ns(p.find(Op::matmul), Share::calls, 1) == doctest::Approx(720 + 2 * 10 * 70));
  }
  SUBCASE("which parts share by panels") {
    CHECK(Costs(machine, *p.plan).call_ns(p.find(Op::matmul), Share::calls, 3) == doctest::Approx(720.0 / 3));
  }
}

TEST_CASE("a product of bf16 costs the tiles of its own kernel") {
  MachineModel machine = no_machine();
  for (std::size_t i = 0; i < cpu::k_tile_rows; ++i) {
    machine.f32.first_rows_ns[i] = machine.f32.next_rows_ns[i] = 100;
    machine.bf16.first_rows_ns[i] = static_cast<double>(i + 1);
  }
  Planned p;
  p.finish(matmul(p.graph.input("a", {DType::bf16, {32, 10}}), p.graph.input("b", {DType::bf16, {10, 70}})));
  CHECK(Costs(machine, *p.plan).call_ns(p.find(Op::matmul), Share::calls, 1) == doctest::Approx(3 * 10 * 32));
}

TEST_CASE("an elementwise group costs its operations, each element and each tile") {
  MachineModel machine = no_machine();
  machine.element_ns[static_cast<std::size_t>(Op::tanh)] = 3;
  machine.element_ns[static_cast<std::size_t>(Op::mul)] = 1;
  Planned p;
  const Value x = p.graph.input("x", {DType::f32, {4, 1024}});
  p.finish(tanh(x) * x);
  const std::int32_t group = p.find(Op::fused);
  CHECK(Costs(machine, *p.plan).call_ns(group, Share::calls, 1) == doctest::Approx(4 * 4096));
  CHECK(Costs(machine, *p.plan).call_ns(group, Share::columns, 2) == doctest::Approx(2 * 4096));
  CHECK(Costs(machine, *p.plan).call_ns(group, Share::none, 2) == doctest::Approx(4 * 4096));
  machine.operation_ns = 10;
  CHECK(Costs(machine, *p.plan).call_ns(group, Share::calls, 1) == doctest::Approx(4 * 4096 + 4 * 2 * 10));
}

TEST_CASE("a value is read from the smallest cache that holds what was touched since") {
  const auto read_in = [](std::int64_t n) {
    MachineModel machine = no_machine();
    machine.one = {{{0, 0}, {1, 0}, {10, 0}, {100, 0}}};
    Planned p;
    const Value x = p.graph.input("x", {DType::f32, {n}});
    p.finish(reduce_sum(x, {0}));
    const double bytes = 4 * static_cast<double>(n);
    return Costs(machine, *p.plan).call_ns(p.find(Op::reduce_sum), Share::calls, 1) / bytes;
  };
  CHECK(read_in(100) == doctest::Approx(0));
  CHECK(read_in(1000) == doctest::Approx(1));
  CHECK(read_in(10'000) == doctest::Approx(10));
  CHECK(read_in(100'000) == doctest::Approx(100));
  CHECK(read_in(300) > 0);  // somewhat more than L1 holds: part of it
  CHECK(read_in(300) < 1);
}

TEST_CASE("what is only another name of memory costs nothing") {
  MachineModel machine = no_machine();
  machine.call_ns = 1;
  Planned p;
  const Value x = p.graph.input("x", {DType::f32, {4, 6}});
  p.finish(tanh(reshape(slice(x, 0, 1, 2), {12})));
  const Costs costs(machine, *p.plan);
  double sum = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(p.plan->graph->nodes().size()); ++i)
    sum += costs.call_ns(i, Share::calls, 1);
  CHECK(sum == doctest::Approx(1));
}

TEST_CASE("calls on nothing cost a finite time, so that branches of them can be weighed") {
  Planned p;
  const Value none = p.graph.input("none", {DType::f32, {3, 0}}), some = p.graph.input("some", {DType::f32, {0, 4}});
  p.finish(tanh(matmul(none, some)) + reduce_sum(exp(none), {1}, true));
  const Costs costs(cpu::usual_machine(), *p.plan);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(p.plan->graph->nodes().size()); ++i)
    for (const int parts : {1, 2}) CHECK(std::isfinite(costs.call_ns(i, Share::calls, parts)));
  CHECK(std::isfinite(cpu::plan_ns(cpu::usual_machine(), *p.plan, 2)));
}

Program lstm_program(Backend& backend) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value x = graph.input("x", {DType::f32, {7, 4, 8}});
  graph.output("y", recurrent_model(scope, x, {.cell = "lstm", .hidden = 16}).y);
  return Program(graph, backend);
}

TEST_CASE("a backend that predicts says so of every call, and of a loop what its calls add up to") {
  const auto backend = make_backend("cpu", {.threads = 1, .specific = {{"predict", "true"}}});
  const Program program = lstm_program(*backend);
  double loop = 0, inside = 0;
  for (const ReportLine& line : program.executable().report()) {
    CAPTURE(line.step);
    CHECK(line.predicted_ms > 0);
    if (line.depth > 0) inside += line.predicted_ms;
    else if (program.plan().graph->node(line.node).op == Op::scan) loop += line.predicted_ms;
  }
  CHECK(inside > 0);
  CHECK(loop > inside);
  CHECK(loop < 3 * inside);  // packing, and what each step begins with
}

TEST_CASE("a backend that was not asked predicts nothing") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const ReportLine& line : lstm_program(*backend).executable().report()) CHECK(line.predicted_ms == 0);
}

TEST_CASE("lines of a report name their node, and those of a loop are deeper") {
  const auto backend = make_backend("cpu", {.threads = 1});
  const Program program = lstm_program(*backend);
  const Plan* plan = &program.plan();
  const Plan* body = nullptr;
  int inside = 0;
  for (const ReportLine& line : program.executable().report()) {
    const Plan* of = line.depth == 0 ? plan : body;
    REQUIRE(of);
    if (line.node < 0) continue;
    const Node& node = of->graph->node(line.node);
    CHECK(line.step.find(op_info(node.op).name) != std::string::npos);
    if (node.op == Op::scan) body = of->bodies[static_cast<std::size_t>(line.node)].get();
    inside += line.depth;
  }
  CHECK(inside >= 1);  // the product of a step computes its elementwise node, too
}

}  // namespace
}  // namespace unroll
