// SPDX-License-Identifier: Apache-2.0
// Loops whose rows end at their lengths, on the vulkan backend: as steps and as one kernel. Skips with the reason when
// there is no device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/error.h"
#include "unroll/model.h"
#include "unroll/ops.h"
#include "unroll/run.h"

namespace unroll {
namespace {

struct Sizes {
  std::int64_t T, B, I, H;
};
// The last has several tiles of rows and of columns.
constexpr Sizes k_sizes[] = {{5, 3, 6, 9}, {4, 37, 11, 19}, {3, 34, 3, 70}};

std::unique_ptr<Backend> open_or_skip(BackendOptions options = {}) {
  try {
    return testing::open_tested("vulkan", options);  // under the validation layer
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    std::printf("skipped: %s\n", error.what());
    return nullptr;
  }
}

struct Network {
  std::string cell;
  Sizes sizes;
  bool bidirectional = false, trains = false;
};
void build(Graph& graph, const Network& network) {
  const Sizes& s = network.sizes;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {s.T, s.B, s.I}});
  const Value lengths = graph.input("lengths", {DType::i32, {s.B}});
  const RecurrentModelOptions options{
      .cell = network.cell, .hidden = s.H, .bidirectional = network.bidirectional};
  const CellLayerResult result = recurrent_model(scope, x, options, {}, lengths);
  Value loss = mean(square(result.y));
  for (std::size_t i = 0; i < result.states.size(); ++i) {
    graph.output("state" + std::to_string(i), result.states[i]);
    loss = loss + mean(square(result.states[i]));
  }
  if (network.trains) testing::output_gradients(scope, loss);
  graph.output("y", result.y);
}

// Lengths below 0, 0, between, T and above; x is NaN behind the end of its row, where nothing may be read.
TensorMap numbers_for(const Graph& graph, const Sizes& s) {
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> number(-0.5f, 0.5f);
  TensorMap inputs;
  for (const NamedValue& input : graph.inputs()) {
    Tensor tensor(graph.type(input.value));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, number(engine));
    inputs.emplace(input.name, std::move(tensor));
  }
  for (std::int64_t b = 0; b < s.B; ++b) {
    const std::int64_t length = (b * 5 + 2) % (s.T + 3) - 1;
    inputs.at("lengths").set(b, static_cast<double>(length));
    for (std::int64_t t = std::max<std::int64_t>(length, 0); t < s.T; ++t)
      for (std::int64_t i = 0; i < s.I; ++i)
        inputs.at("x").set((t * s.B + b) * s.I + i, std::numeric_limits<double>::quiet_NaN());
  }
  return inputs;
}

// What the report says of the loops, in order.
std::vector<std::string> loops_of(const Program& program) {
  std::vector<std::string> found;
  for (const ReportLine& line : program.executable().report())
    for (const std::string text : {"steps of", "whole loop"})
      if (const auto at = line.implementation.find(text); at != std::string::npos)
        found.push_back(line.implementation.substr(at));
  return found;
}

// As for loops without lengths (test_vulkan_loops.cc): 2 u for each term of the longest sum, in each step.
double allowed(const Sizes& s, double largest) {
  const double terms = static_cast<double>(std::max(s.T * s.B, s.I + s.H) + 8);
  return 0x1p-23 * terms * static_cast<double>(s.T) * largest;
}

}  // namespace

TEST_CASE("a step whose rows end takes as many dispatches as one whose rows do not") {
  const auto backend = open_or_skip({.own = {{"loops", "steps"}}});
  if (!backend) return;
  struct Row {
    std::string cell, forward, backward;
  };
  const Row rows[] = {{"rnn", "steps of 1 dispatch", "steps of 1 dispatch"},
                      {"lstm", "steps of 1 dispatch", "steps of 1 dispatch"},
                      {"gru", "steps of 1 dispatch", "steps of 1 dispatch"},
                      {"lnlstm", "steps of 2 dispatches", "steps of 2 dispatches"}};
  for (const Row& row : rows)
    for (const bool trains : {false, true}) {
      CAPTURE(row.cell);
      CAPTURE(trains);
      Graph graph;
      build(graph, {.cell = row.cell, .sizes = {6, 5, 12, 24}, .trains = trains});
      const Program program(graph, *backend);
      const std::vector<std::string> steps = loops_of(program);
      REQUIRE(steps.size() == (trains ? 2 : 1));
      CHECK(steps[0] == row.forward);
      if (trains) CHECK(steps[1] == row.backward);
    }
}

TEST_CASE("rows that end have the values and gradients of cpu, as steps and as one kernel, with the same bits again") {
  const auto cpu = make_backend("cpu");
  for (const std::string loops : {"steps", "whole"}) {
    const auto backend = open_or_skip({.own = {{"loops", loops}}});
    if (!backend) return;
    int whole = 0;
    for (const std::string cell : {"rnn", "lstm", "gru", "lnlstm", "indrnn"})
      for (const Sizes& sizes : k_sizes) {
        const bool bidirectional = sizes.B == 3;
        CAPTURE(loops);
        CAPTURE(cell);
        CAPTURE(sizes.H);
        Graph graph;
        build(graph, {cell, sizes, bidirectional, true});
        const TensorMap inputs = numbers_for(graph, sizes), wanted = evaluate(graph, *cpu, inputs);
        Program program(graph, *backend);
        for (const std::string& loop : loops_of(program)) whole += loop.rfind("whole loop", 0) == 0;
        const TensorMap first = program.run(inputs), again = program.run(inputs);
        for (const auto& result : wanted) {
          CAPTURE(result.first);
          double largest = 0, error = 0;
          for (std::int64_t i = 0; i < result.second.elements(); ++i) {
            largest = std::max(largest, std::abs(result.second.at(i)));
            const double got = first.at(result.first).at(i);
            error = std::isnan(got) ? 1e30 : std::max(error, std::abs(got - result.second.at(i)));
          }
          CHECK(error <= allowed(sizes, largest));
          CHECK(testing::same_bits(first.at(result.first), again.at(result.first)));
        }
      }
    CHECK((whole > 0) == (loops == "whole"));
  }
}

// A sum over another axis than the last is a kernel that computes all rows.
TEST_CASE("a state that a reduction makes stays as it is in rows that have ended, in both directions") {
  const auto backend = open_or_skip({.own = {{"loops", "steps"}}});
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    const Sizes sizes{6, 7, 15, 5};
    Graph graph;
    const Value x = graph.input("x", {DType::f32, {sizes.T, sizes.B, sizes.I}});
    const Value states[] = {graph.input("s", {DType::f32, {sizes.B, sizes.H}})};
    const Value sequences[] = {x};
    ScanOptions options{.reverse = reverse, .lengths = {}, .reset = {}, .steps = sizes.T};
    options.lengths = graph.input("lengths", {DType::i32, {sizes.B}});
    const auto step = [&](const StepValues& v) {
      const Value three = reshape(v.sequences[0], {sizes.B, 3, sizes.H});
      const Value one = reshape(v.states[0], {sizes.B, 1, sizes.H});
      const Value next = reduce_sum(three * one + three, {1});
      return StepResult{{next}, {next}};
    };
    const ScanResult result = scan(states, sequences, {}, step, options);
    graph.output("last", result.states[0]);
    graph.output("y", result.outputs[0]);
    const TensorMap inputs = numbers_for(graph, sizes), wanted = evaluate(graph, *cpu, inputs);
    const TensorMap got = evaluate(graph, *backend, inputs);
    for (const auto& expected : wanted) {
      CAPTURE(expected.first);
      for (std::int64_t i = 0; i < expected.second.elements(); ++i)  // three terms, of at most (3 / 2) ^ T in the end
        REQUIRE(std::abs(got.at(expected.first).at(i) - expected.second.at(i)) <=
                0x1p-23 * 8 * static_cast<double>(sizes.T) * 12);
    }
  }
}

TEST_CASE("whole loops whose rows end have the bits of their steps, also cut into dispatches and in large workgroups") {
  struct Way {
    BackendOptions options;
    bool is_cut;
  };
  const Way ways[] = {{{}, false}, {{.own = {{"iterations", "900"}}}, true}, {{.own = {{"sizes", "large"}}}, false}};
  int dispatches[2] = {0, 0};
  for (const Way& way : ways) {
    BackendOptions steps = way.options, whole = way.options;
    if (way.is_cut) steps = {};
    steps.own["loops"] = "steps", whole.own["loops"] = "whole";
    const auto in_steps = open_or_skip(steps), in_one = open_or_skip(whole);
    if (!in_one) return;
    for (const std::string cell : {"lstm", "gru", "lnlstm"}) {
      CAPTURE(cell);
      const Sizes sizes{9, 11, 5, 12};
      Graph graph;
      build(graph, {cell, sizes, true, true});
      const TensorMap inputs = numbers_for(graph, sizes), wanted = Program(graph, *in_steps).run(inputs);
      Program program(graph, *in_one);
      const TensorMap got = program.run(inputs);
      for (const auto& result : wanted) {
        CAPTURE(result.first);
        CHECK(testing::same_bits(got.at(result.first), result.second));
      }
      for (const std::string& loop : loops_of(program)) {
        int n = 0;
        if (std::sscanf(loop.c_str(), "whole loop in %d", &n) == 1) dispatches[way.is_cut] += n;
      }
    }
  }
  CHECK(dispatches[1] > dispatches[0] / 2);  // of one way and of two
}

}  // namespace unroll
