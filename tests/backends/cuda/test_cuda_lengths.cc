// SPDX-License-Identifier: Apache-2.0
// Loops whose rows end at their lengths, on the cuda backend: as steps, as one kernel, and with resident weights.
// Skips with the reason when there is no device.
#include <doctest/doctest.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/functions.h"
#include "tests/backends/cuda/cuda_layers.h"
#include "tests/conformance/cuda_compiler.h"
#include "tests/support/changed_kernels.h"
#include "tests/support/compare.h"
#include "tests/support/loop_networks.h"
#include "tests/support/loop_reports.h"
#include "tests/support/or_skip.h"
#include "unroll/support/error.h"

namespace unroll::test_cuda_lengths {
namespace {

using testing::contains;
using testing::LoopNetwork;
using testing::LoopSizes;

std::unique_ptr<Backend> open_or_skip(const std::string& loops, const std::string& lengths = "packed") {
  return testing::or_skip([&] {
    return make_backend("cuda", {.specific = {{"loops", loops}, {"products", "own"}, {"lengths", lengths}}});
  });
}

RecurrentModelOptions options_of(const std::string& cell, int layers = 1, bool bidirectional = false) {
  RecurrentModelOptions options{.cell = cell, .layers = layers, .bidirectional = bidirectional};
  if (cell == "lstm+projection") options.cell = "lstm", options.projection = 5;
  return options;
}

std::vector<std::string> loops_of(const std::string& report) {
  std::vector<std::string> loops;
  for (std::size_t at = 0, end; (end = report.find('\n', at)) != std::string::npos; at = end + 1)
    if (const std::string line = report.substr(at, end - at); contains(line, "steps of")) loops.push_back(line);
  return loops;
}

const char* const k_forms[] = {"steps", "whole", "resident-units"};
const char* const k_form_words[] = {"launch", "all in one kernel", "weights resident in "};

// Memory that kernels have accessed so far, in words; null where no shim counts it.
std::uint64_t (*accesses())() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "unroll_shim_accesses")) : nullptr;
}

// Calls of the driver.
struct Calls {
  int launches = 0, graphs = 0;
} calls;
cuda::Functions real;
CUresult counted_launch(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned b, unsigned c,
                        unsigned bytes, CUstream stream, void** arguments, void** extra) {
  ++calls.launches;
  return real.LaunchKernel(f, x, y, z, threads, b, c, bytes, stream, arguments, extra);
}
CUresult counted_graph(CUgraphExec graph, CUstream stream) {
  ++calls.graphs;
  return real.GraphLaunch(graph, stream);
}
void tamper(cuda::Functions& functions) {
  if (!functions.LaunchKernel) return;
  real = functions;
  functions.LaunchKernel = counted_launch;
  functions.GraphLaunch = counted_graph;
}

}  // namespace

// No device runs.
TEST_CASE("a step whose rows end takes as many launches as one whose rows do not, in every form") {
  const testing::PlansForCuda backend;
  const auto launches = [&](const std::string& cell, bool ends, cuda::LoopForm form) {
    Graph graph;
    Scope scope(graph);
    const Value x = graph.input("x", {DType::f32, {6, 16, 12}});
    const Value lengths = ends ? graph.input("lengths", {DType::i32, {16}}) : Value{};
    const Value y = recurrent_model(scope, x, {.cell = cell, .hidden = 24, .bidirectional = true}, {}, lengths).y;
    testing::output_gradients(scope, mean(square(y)));
    graph.output("y", y);
    const cuda::LoopOptions loops{form, 90, 4, 227 << 10, true};
    const cuda::Program program = cuda::compile_program(plan(graph, backend), 4, {}, nullptr, loops);
    std::vector<std::int64_t> all;
    for (const cuda::NodeWork& work : program.main->works)
      if (work.body) all.push_back(cuda::commands_per_step(*work.body));
    return all;
  };
  for (const std::string cell : {"rnn", "gru", "lstm", "lnlstm"})
    for (const auto form : {cuda::LoopForm::steps, cuda::LoopForm::whole, cuda::LoopForm::resident}) {
      CAPTURE(cell);
      const auto packed = launches(cell, true, form);
      CHECK(packed.size() == 4);
      CHECK(packed == launches(cell, false, form));
    }
}

// The buffers of a program stay: its second run is captured, later ones launch the graph with other lengths.
TEST_CASE("rows that end have the values and gradients of cpu in every form of loops, replayed with other lengths") {
  struct Row {
    const char* cell;
    LoopSizes sizes;
    int layers;
    bool bidirectional;
    int forms = 3;  // without resident ones: run_values has these
  };
  const Row rows[] = {{"rnn", {5, 3, 6, 9}, 1, true, 2},        {"gru", {5, 3, 6, 9}, 1, true, 2},
                      {"lstm", {5, 3, 6, 9}, 2, true, 2},       {"lstm", {3, 34, 3, 24}, 1, false},
                      {"lstm+projection", {4, 9, 5, 8}, 1, false}, {"lnlstm", {4, 18, 3, 12}, 1, true},
                      {"blend", {4, 5, 3, 8}, 1, false},        {"lstm", {4, 1, 3, 5}, 1, false, 2},
                      {"gru", {1, 4, 3, 5}, 1, false, 1}};
  const auto cpu = make_backend("cpu");
  std::map<std::string, std::vector<TensorMap>> of_steps;  // by network
  for (int form = 0; form < 3; ++form) {
    const auto backend = open_or_skip(k_forms[form]);
    if (!backend) return;
    for (const Row& row : rows) {
      if (form >= row.forms) continue;
      CAPTURE(k_forms[form]);
      CAPTURE(row.cell);
      CAPTURE(row.sizes.H);
      const LoopSizes& s = row.sizes;
      Graph graph;
      testing::build_with_lengths(graph, {options_of(row.cell, row.layers, row.bidirectional), s});
      const TensorMap numbers = testing::small_numbers_for(graph, 5);
      cuda_layers::Bound program(graph, *backend, {}, numbers);
      std::vector<TensorMap>& steps = of_steps[row.cell + std::to_string(s.H)];
      const std::vector<std::vector<std::int64_t>> all{testing::mixed_lengths(s), {s.T}, {0}, {s.T - 1, 1}};
      for (std::size_t k = 0; k < all.size(); ++k) {
        CAPTURE(k);
        TensorMap inputs = numbers;
        testing::set_lengths(inputs, all[k]);
        program.set(inputs);
        const TensorMap got = program.run(), wanted = evaluate(graph, *cpu, inputs);
        for (const auto& result : wanted) {
          CAPTURE(result.first);
          CHECK(testing::error_of(s, got.at(result.first), result.second) <= 1);
          if (form == 1) CHECK(testing::same_bits(got.at(result.first), steps[k].at(result.first)));
        }
        if (form == 0) steps.push_back(got);
      }
      const auto loops = loops_of(program.report());
      CHECK(loops.size() == (s.T == 1 ? 0 : 2u * static_cast<unsigned>(row.layers * (1 + row.bidirectional))));
      for (const std::string& loop : loops) {
        CHECK_MESSAGE(contains(loop, "packed rows"), loop);
        CHECK_MESSAGE(contains(loop, k_form_words[form]), loop);
      }
    }
  }
}

TEST_CASE("an update with lengths is one CUDA graph, and the lengths of a run are those of its input") {
  cuda::set_tamper(tamper);
  const auto backend = open_or_skip("steps");
  cuda::set_tamper(nullptr);
  if (!backend) return;
  const auto cpu = make_backend("cpu");
  const LoopSizes s{4, 5, 3, 6};
  Graph graph;
  Scope scope(graph);
  const Value x = graph.input("x", {DType::f32, {s.T, s.B, s.I}});
  const Value lengths = graph.input("lengths", {DType::i32, {s.B}});
  const Value y = recurrent_model(scope, x, {.cell = "gru", .hidden = s.H}, {}, lengths).y;
  std::vector<Value> parameters;
  for (const ParameterSpec& p : scope.parameters()) parameters.push_back(graph.find_input(p.name));
  std::size_t i = 0;
  for (const Value& d : differentiate(mean(square(y)), parameters))
    graph.output("p" + std::to_string(i), parameters[i] - d * 0.5), ++i;
  const TensorMap numbers = testing::small_numbers_for(graph, 7);
  cuda_layers::Bound program(graph, *backend, {}, numbers);
  const std::vector<std::vector<std::int64_t>> all{{4}, {1, 3}, {4, 0, 2}, {0}, {3, 4, 1, 2, 2}};
  for (std::size_t run = 0; run < all.size(); ++run) {
    CAPTURE(run);
    TensorMap inputs = numbers;
    testing::set_lengths(inputs, all[run]);
    program.set(inputs);
    calls = {};
    const TensorMap got = program.run(), wanted = evaluate(graph, *cpu, inputs);
    for (const auto& result : wanted) CHECK(testing::error_of(s, got.at(result.first), result.second) <= 1);
    CHECK(calls.graphs == (run == 0 ? 0 : 1));
    CHECK((calls.launches > 0) == (run < 2));  // the second run is captured
  }
}

TEST_CASE("with lengths=masked all rows run, and the values are the same") {
  const auto packed = open_or_skip("whole"), masked = open_or_skip("whole", "masked");
  if (!masked) return;
  const LoopSizes s{4, 5, 3, 6};
  Graph graph;
  testing::build_with_lengths(graph, {options_of("lstm"), s});
  TensorMap inputs = testing::small_numbers_for(graph, 5);
  inputs.at("lengths") = Tensor(graph.type(graph.find_input("lengths").id()));
  for (std::int64_t b = 0; b < s.B; ++b) inputs.at("lengths").set(b, static_cast<double>(b));
  Program one(graph, *packed), other(graph, *masked);
  const TensorMap wanted = one.run(inputs), got = other.run(inputs);
  for (const auto& result : wanted) CHECK(testing::error_of(s, got.at(result.first), result.second) <= 1);
  int loops = 0;
  for (const ReportLine& line : other.executable().report()) {
    loops += contains(line.implementation, "steps of");
    CHECK(!contains(line.implementation, "packed rows"));
  }
  CHECK(loops == 2);
}

// Rows are whole tiles of products (16 rows), so that a part of a tile costs nothing.
TEST_CASE("memory that loops access follows the sum of the lengths") {
  const auto count = accesses();
  if (!count) return;
  for (const char* const form : {k_forms[0], k_forms[1]})
    for (const char* const cell : {"lstm", "lnlstm"}) {
      if (form != k_forms[0] && cell[1] == 'n') continue;  // most of its accesses are those of a command by each block
      CAPTURE(form);
      CAPTURE(cell);
      const auto backend = open_or_skip(form);
      if (!backend) return;
      const LoopSizes s{4, 64, 8, 8};
      Graph graph;
      testing::build_with_lengths(graph, {options_of(cell), s});
      const TensorMap numbers = testing::small_numbers_for(graph, 5);
      cuda_layers::Bound program(graph, *backend, {}, numbers);
      program.run();
      const auto cost = [&](const std::vector<std::int64_t>& lengths) {
        TensorMap inputs = numbers;
        testing::set_lengths(inputs, lengths);
        program.set(inputs);
        const std::uint64_t before = count();
        program.run();
        return static_cast<double>(count() - before);
      };
      // What packs, unpacks, and looks for rows costs the same for all lengths. So does what each step with rows does
      // besides in a loop of one kernel: its commands go to all blocks.
      const double none = cost({0}), few = cost({4, 0, 0, 0}), all = cost({4});
      std::printf("%s, %s: %.2f million accesses for all rows, %.2f for a quarter of them, %.2f for none\n", form, cell,
                  all / 1e6, few / 1e6, none / 1e6);
      CHECK(std::abs((cost({4, 3, 2, 1}) - few) / (all - few) - 0.5) < 0.03);
      CHECK(std::abs((cost({4, 4, 0, 0}) - few) / (all - few) - 1.0 / 3) < 0.03);
      CHECK(std::abs((cost({2}) - none) / (all - none) - 0.5) < 0.03);
      if (form == k_forms[0]) CHECK(std::abs((few - none) / (all - none) - 0.25) < 0.03);
    }
}

// docs/numerics.md: gradients within 8 ceil(log2 n) s, n the longest sum of a step times the steps.
TEST_CASE("products of the library on all rows count only those that are there, whatever the others hold") {
  const auto own = open_or_skip("steps");
  if (!own) return;
  const auto library = make_backend("cuda");
  const LoopSizes s{4, 6, 8, 16};
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const double u = precision == Precision::f32 ? 0x1p-24 : 0x1p-8;
    CAPTURE(u);
    Graph graph;
    testing::build_with_lengths(graph, {options_of("lstm"), s});
    const TensorMap numbers = testing::small_numbers_for(graph, 5);
    PlanOptions options;
    options.precision = precision;
    cuda_layers::Bound by_library(graph, *library, options, numbers), by_own(graph, *own, options, numbers);
    const double allowed = 8 * std::ceil(std::log2(4.0 * static_cast<double>(s.H * s.T * s.B))) * u;
    // Rows that are not there hold NaN before the first run, then numbers of the one before.
    for (const std::vector<std::int64_t>& lengths : {testing::mixed_lengths(s), {4}, {1, 0, 3}, {0}}) {
      TensorMap inputs = numbers;
      testing::set_lengths(inputs, lengths);
      by_library.set(inputs);
      by_own.set(inputs);
      const TensorMap got = by_library.run();
      const TensorMap wanted = by_own.run();
      for (const auto& result : wanted) {
        CAPTURE(result.first);
        const double distance = testing::relative_distance(got.at(result.first), result.second);
        CHECK(distance <= allowed);
      }
    }
    // Outside of loops products are the library's, in their steps where tensor cores multiply.
    const std::string report = by_library.report();
    if (!contains(library->describe().device, "cuBLASLt")) continue;
    CAPTURE(report);
    CHECK(contains(report, "launches: cuBLASLt"));
    CHECK(contains(report, "packed rows\n1 launch: cuBLASLt") == (u > 0x1p-24));
    CHECK(contains(report, "packed rows\n1 launch\n3 launches: cuBLASLt") == (u > 0x1p-24));
  }
}

TEST_CASE("a step that takes one row too many is seen") {
  const LoopSizes s{4, 5, 3, 6};
  Graph graph;
  testing::build_with_lengths(graph, {options_of("lstm"), s});
  TensorMap inputs = testing::small_numbers_for(graph, 5);
  testing::set_lengths(inputs, {4, 1, 2, 0, 3});
  const TensorMap wanted = evaluate(graph, *make_backend("cpu"), inputs);
  struct Mistake {
    const char *form, *text, *instead;
  };
  for (const Mistake& mistake : {Mistake{"steps", "live_index(live[0])", "live_index(live[0] + (live[0] < 5))"},
                                 Mistake{"whole", "(long long)live[1]", "(long long)(live[1] + 1)"},
                                 Mistake{"resident", "live[0] * 1", "(live[0] + (live[0] < 5))"}}) {
    CAPTURE(std::string(mistake.text));
    const testing::ChangedKernels changed(mistake.text, mistake.instead);
    const auto backend = open_or_skip(mistake.form);
    if (!backend) return;
    double worst = 0;
    try {
      const TensorMap got = Program(graph, *backend).run(inputs);
      for (const auto& result : wanted)
        worst = std::max(worst, testing::error_of(s, got.at(result.first), result.second));
    } catch (const Error&) {  // or the race checker sees it
      worst = 2;
    }
    CHECK(changed.places() > 0);
    CHECK(worst > 1);
  }
}

// The number has the axis of the rows only, which is no axis of units.
TEST_CASE("a state of one number for each row ends with its row in a resident loop") {
  const auto resident = open_or_skip("resident");
  if (!resident) return;
  constexpr std::int64_t T = 4, B = 3, H = 4;
  Graph graph;
  const Value states[] = {graph.input("h0", {DType::f32, {B, H}}), graph.input("n0", {DType::f32, {B}})};
  const Value sequences[] = {graph.input("x", {DType::f32, {T, B, H}})};
  const Value constants[] = {graph.input("w", {DType::f32, {H, H}})};
  ScanOptions options;
  options.lengths = graph.input("lengths", {DType::i32, {B}});
  const ScanResult r = scan(states, sequences, constants, [](const StepValues& v) {
    const Value h = tanh(linear(v.states[0], v.constants[0]) + v.sequences[0]);
    return StepResult{{h, v.states[1] + 1.0}, {h}};
  }, options);
  graph.output("y", r.outputs[0]);
  graph.output("h", r.states[0]);
  graph.output("n", r.states[1]);
  TensorMap inputs = testing::small_numbers_for(graph, 5);
  inputs.at("lengths") = Tensor::from(Shape{B}, std::vector<std::int32_t>{1, 4, 2});
  Program program(graph, *resident);
  const TensorMap got = program.run(inputs), wanted = evaluate(graph, *make_backend("cpu"), inputs);
  for (const auto& result : wanted)
    CHECK(testing::error_of({T, B, H, H}, got.at(result.first), result.second) <= 1);
  for (const ReportLine& line : program.executable().report())
    if (contains(line.implementation, "steps of")) CHECK(contains(line.implementation, "weights resident in "));
}

}  // namespace unroll::test_cuda_lengths
