// SPDX-License-Identifier: Apache-2.0
// Loops whose rows end at their lengths, on the vulkan backend: as steps and as one kernel. Skips with the reason when
// there is no device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/loop_networks.h"
#include "tests/support/or_skip.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::test_vulkan_lengths {
namespace {

using testing::LoopNetwork;
using testing::LoopSizes;

// The last has several tiles of rows and of columns.
constexpr LoopSizes k_sizes[] = {{5, 3, 6, 9}, {4, 37, 11, 19}, {3, 34, 3, 70}};

std::unique_ptr<Backend> open_or_skip(BackendOptions options = {}) {
  return testing::or_skip([&] { return testing::open_tested("vulkan", options); });  // under the validation layer
}

TensorMap numbers_for(const Graph& graph, const LoopSizes& s) {
  TensorMap inputs = testing::small_numbers_for(graph, 5);
  testing::set_lengths(inputs, testing::mixed_lengths(s));
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

}  // namespace

TEST_CASE("rows that end have the values and gradients of cpu, as steps and as one kernel, with the same bits again") {
  const auto cpu = make_backend("cpu");
  for (const std::string loops : {"steps", "whole"}) {
    const auto backend = open_or_skip({.specific = {{"loops", loops}}});
    if (!backend) return;
    int whole = 0;
    for (const std::string cell : {"rnn", "lstm", "gru", "lnlstm", "indrnn"})
      for (const LoopSizes& sizes : k_sizes) {
        const bool bidirectional = sizes.B == 3;
        CAPTURE(loops);
        CAPTURE(cell);
        CAPTURE(sizes.H);
        Graph graph;
        testing::build_with_lengths(graph, {{.cell = cell, .bidirectional = bidirectional}, sizes});
        const TensorMap inputs = numbers_for(graph, sizes), wanted = evaluate(graph, *cpu, inputs);
        Program program(graph, *backend);
        for (const std::string& loop : loops_of(program)) whole += loop.rfind("whole loop", 0) == 0;
        const TensorMap first = program.run(inputs), again = program.run(inputs);
        for (const auto& result : wanted) {
          CAPTURE(result.first);
          CHECK(testing::error_of(sizes, first.at(result.first), result.second) <= 1);
          CHECK(testing::same_bits(first.at(result.first), again.at(result.first)));
        }
      }
    CHECK((whole > 0) == (loops == "whole"));
  }
}

// A sum over another axis than the last is a kernel that computes all rows.
TEST_CASE("a state that a reduction makes stays as it is in rows that have ended, in both directions") {
  const auto backend = open_or_skip({.specific = {{"loops", "steps"}}});
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    const LoopSizes sizes{6, 7, 15, 5};
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
  const Way ways[] = {{{}, false}, {{.specific = {{"iterations", "900"}}}, true}, {{.specific = {{"sizes", "large"}}},
                                                                                   false}};
  int dispatches[2] = {0, 0};
  for (const Way& way : ways) {
    BackendOptions steps = way.options, whole = way.options;
    if (way.is_cut) steps = {};
    steps.specific["loops"] = "steps", whole.specific["loops"] = "whole";
    const auto in_steps = open_or_skip(steps), in_one = open_or_skip(whole);
    if (!in_one) return;
    for (const std::string cell : {"lstm", "gru", "lnlstm"}) {
      CAPTURE(cell);
      const LoopSizes sizes{9, 11, 5, 12};
      Graph graph;
      testing::build_with_lengths(graph, {{.cell = cell, .bidirectional = true}, sizes});
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

}  // namespace unroll::test_vulkan_lengths
