// SPDX-License-Identifier: Apache-2.0
// Prints the measured and predicted time of each call of a program, and what each thread did when.
#include <unroll/model/model.h>
#include <unroll/passes/run.h>
#include <unroll/support/trace.h>

#include <cstdio>

using namespace unroll;

int main() {
  Trace trace(1000);  // maximum events per thread
  const auto backend = make_backend("cpu", {.threads = 2, .specific = {{"predict", "true"}}, .trace = &trace});

  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value x = graph.input("x", {DType::f32, {50, 16, 32}});  // [T,B,I]
  graph.output("y", recurrent_model(scope, x, {.cell = "lstm", .hidden = 64}).y);
  Program program(graph, *backend);
  TensorMap inputs = initialize(scope.parameters(), 1);
  inputs.emplace("x", Tensor(x.type()));

  constexpr int k_runs = 20;  // the first runs choose schedules
  for (int run = 0; run < k_runs; ++run) program.run(inputs);
  for (const ReportLine& line : program.executable().report())
    std::printf("%*s%-*s %8.4f ms, predicted %8.4f  %s\n", 2 * line.depth, "", 20 - 2 * line.depth, line.step.c_str(),
                line.milliseconds / k_runs, line.predicted_ms, line.implementation.c_str());

  trace.record(true);
  program.run(inputs);
  trace.record(false);
  for (std::size_t lane = 0; lane < trace.n_lanes(); ++lane) {
    double waited = 0, all = 0;
    for (const Trace::Event& event : trace.events(lane)) {
      const double us = static_cast<double>(event.end - event.begin) * 1e-3;
      all += us;
      if (event.name == Trace::k_wait) waited += us;
    }
    std::printf("thread %zu: %zu events, waited %.1f of %.1f us\n", lane, trace.events(lane).size(), waited, all);
  }
}
