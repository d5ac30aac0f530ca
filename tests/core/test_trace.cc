// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/backend_options.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/trace.h"

namespace unroll {
namespace {

struct Traced {
  Trace trace;
  std::unique_ptr<Backend> backend;
  Program program;
  TensorMap inputs;

  static std::unique_ptr<Graph> graph() {
    auto graph = std::make_unique<Graph>();
    Scope scope(*graph, /*training=*/false);
    const Value x = graph->input("x", {DType::f32, {6, 8, 4}});
    graph->output("y", recurrent_model(scope, x, {.cell = "gru", .hidden = 16}).y);
    return graph;
  }
  Traced(std::size_t most_events, const std::string& schedule)
      : trace(most_events),
        backend(make_backend("cpu", testing::scheduled(2, schedule, &trace))),
        program(*graph(), *backend) {
    for (const NamedValue& input : program.plan().graph->inputs())
      inputs.emplace(input.name, Tensor(program.plan().graph->type(input.value)));
  }
};

TEST_CASE("each thread has a lane of events in order, named like the lines of the report") {
  for (const std::string schedule : {"columns", "rows", "calls", "one"}) {
    CAPTURE(schedule);
    Traced t(10'000, schedule);
    t.program.run(t.inputs);
    for (std::size_t lane = 0; lane < 2; ++lane) CHECK(t.trace.events(lane).empty());  // nobody recorded
    t.trace.record(true);
    t.program.run(t.inputs);
    t.trace.record(false);
    REQUIRE(t.trace.n_lanes() == 2);
    std::vector<std::string> lines{"wait"};
    for (const ReportLine& line : t.program.executable().report()) lines.push_back(line.step);
    for (std::size_t lane = 0; lane < 2; ++lane) {
      CHECK(t.trace.events(lane).size() > (lane == 0 || schedule != "one" ? 12u : 0u));  // two calls a step and more
      for (const Trace::Event& event : t.trace.events(lane)) {
        CHECK(event.begin <= event.end);
        CHECK(std::find(lines.begin(), lines.end(), t.trace.text(event.name)) != lines.end());
      }
      CHECK(t.trace.dropped(lane) == 0);
    }
  }
}

TEST_CASE("a trace that is full counts what it leaves out") {
  Traced t(5, "calls");
  t.trace.record(true);
  t.program.run(t.inputs);
  for (std::size_t lane = 0; lane < 2; ++lane) {
    CHECK(t.trace.events(lane).size() == 5);
    CHECK(t.trace.dropped(lane) > 5);
  }
}

TEST_CASE("results are the same bits while a trace is recorded") {
  Traced t(1000, "columns");
  const TensorMap before = t.program.run(t.inputs);
  t.trace.record(true);
  const TensorMap traced = t.program.run(t.inputs);
  CHECK(std::ranges::equal(before.at("y").bytes(), traced.at("y").bytes()));
}

}  // namespace
}  // namespace unroll
