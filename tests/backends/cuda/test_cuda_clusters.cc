// SPDX-License-Identifier: Apache-2.0
// Resident loops of the cuda backend whose blocks are a cluster: operands of products in the shared memory of all
// blocks instead of the memory of the device. Skips with the reason when there is no device.
#include <doctest/doctest.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/functions.h"
#include "tests/support/changed_kernels.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_outputs.h"
#include "tests/support/loop_networks.h"
#include "tests/support/loop_reports.h"
#include "tests/support/or_skip.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::test_cuda_clusters {
namespace {

using testing::contains;
using testing::loops_of;
using Sizes = testing::LoopSizes;

std::unique_ptr<Backend> open_or_skip(const std::string& exchange, const std::string& wgmma = "false") {
  return testing::or_skip([&] {
    return make_backend("cuda", {.specific = {{"loops", "resident-units"},
                                         {"exchange", exchange},
                                         {"wgmma", wgmma},
                                         {"products", "own"}}});
  });
}

// Made up: a product of what the step made of another one.
const TextCell k_text_cell{.name = "twice",
                           .states = {"h"},
                           .step = "g = sigmoid(affine(x, h))\n"
                                   "h' = (1 - g) * h + g * tanh(affine(x, g * h))"};

struct NetworkShape {
  const char* cell;
  Sizes sizes;
  bool ends = false;  // rows have lengths
};

void build(Graph& graph, const NetworkShape& network, bool trains = true) {
  const Sizes& s = network.sizes;
  Scope scope(graph, /*training=*/trains);
  const Value x = graph.input("x", {DType::f32, {s.T, s.B, s.I}});
  const Value lengths = network.ends ? graph.input("lengths", {DType::i32, {s.B}}) : Value{};
  RecurrentModelOptions options{.cell = network.cell, .hidden = s.H, .bidirectional = network.ends,
                                .cells = {k_text_cell}};
  if (options.cell == "lstm+projection") options.cell = "lstm", options.projection = 6;
  if (options.cell == "gru+reset before") options.cell = "gru", options.reset_after = false;
  const Value y = recurrent_model(scope, x, options, {}, lengths).y;
  if (trains) testing::output_gradients(scope, mean(square(y)));
  graph.output("y", y);
}

TensorMap inputs_of(const Graph& graph, const NetworkShape& network) {
  TensorMap inputs = testing::small_numbers_for(graph, 3);
  if (!network.ends) return inputs;
  testing::set_lengths(inputs, testing::mixed_lengths(network.sizes));
  return inputs;
}

// How many operands products found in shared memory.
int passed_in(const std::string& loop) {
  const std::string word = " operands in shared memory";
  return contains(loop, word) ? testing::number_before(loop, word) : 0;
}

bool runs_on_shim() {
  const auto backend = open_or_skip("shared");
  return backend && testing::is_shim(*backend);
}

// Of the shim, until the next call.
void set_multiprocessors(int n) { setenv("UNROLL_SHIM_MULTIPROCESSORS", std::to_string(n).c_str(), 1); }

CUresult no_clusters(int* n, CUfunction, const CUlaunchConfig*) {
  *n = 0;
  return CUDA_SUCCESS;
}
void leave_out_clusters(cuda::Functions& functions) { functions.OccupancyMaxActiveClusters = no_clusters; }

void check_same_bits(Program& one, Program& other, const TensorMap& inputs) {
  const TensorMap wanted = other.run(inputs);
  for (int run = 0; run < 3; ++run)  // the third is a CUDA graph
    for (const auto& result : one.run(inputs)) {
      CAPTURE(result.first);
      CAPTURE(run);
      CHECK(testing::same_bits(result.second, wanted.at(result.first)));
    }
}

// Widths that fill vectors of 16 bytes and that do not, one group of rows and several, tiles of rows that end.
constexpr NetworkShape k_networks[] = {
    {"rnn", {4, 5, 3, 32}},    {"lstm", {4, 18, 8, 48}},          {"lstm", {3, 3, 5, 37}, true},
    {"gru", {3, 17, 5, 40}},   {"lstm", {5, 9, 4, 33}},           {"gru", {5, 18, 4, 32}, true},
    {"twice", {3, 6, 5, 35}},  {"gru+reset before", {3, 6, 4, 24}}, {"lstm+projection", {3, 9, 4, 32}},
    {"lnlstm", {3, 7, 4, 32}}};

}  // namespace

TEST_CASE("operands in shared memory have the bits of those in the memory of the device, in every precision") {
  const auto shared = open_or_skip("shared"), global = open_or_skip("global");
  if (!shared) return;
  for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16})
    for (const NetworkShape& network : k_networks) {
      const bool is_other = precision == Precision::tf32 || precision == Precision::f16;
      if (is_other && &network - k_networks > 3) break;  // the others differ in what all precisions have in common
      CAPTURE(std::string(network.cell));
      CAPTURE(network.sizes.H);
      CAPTURE(static_cast<int>(precision));
      Graph graph;
      build(graph, network);
      PlanOptions options;
      options.precision = precision;
      Program one(graph, *shared, options), other(graph, *global, options);
      check_same_bits(one, other, inputs_of(graph, network));
      for (const std::string& loop : loops_of(other)) CHECK_MESSAGE(passed_in(loop) == 0, loop);
    }
}

TEST_CASE("products of a cluster read each operand from shared memory but the first state") {
  if (!runs_on_shim()) return;
  constexpr int T = 6;
  struct Passed {
    const char* cell;
    int forward, backward;  // of the products of a step
  };
  set_multiprocessors(4);  // one group of rows
  const auto backend = open_or_skip("shared");
  for (const Passed& p : {Passed{"rnn", 1, 1}, Passed{"lstm", 1, 1}, Passed{"gru", 1, 1}, Passed{"twice", 2, 2}})
    for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16}) {
      CAPTURE(std::string(p.cell));
      CAPTURE(static_cast<int>(precision));
      Graph graph;
      const NetworkShape network{p.cell, {T, 7, 8, 32}};
      build(graph, network);
      PlanOptions options;
      options.precision = precision;
      Program program(graph, *backend, options);
      program.run(inputs_of(graph, network));
      const std::vector<std::string> loops = loops_of(program);
      REQUIRE(loops.size() == 2);
      CHECK_MESSAGE(passed_in(loops[0]) == p.forward * T - 1, loops[0]);
      CHECK_MESSAGE(passed_in(loops[1]) == p.backward * T, loops[1]);
      for (const std::string& loop : loops) CHECK_MESSAGE(contains(loop, " 0 waits of the grid"), loop);
    }
}

TEST_CASE("where eight blocks are not enough, a cluster has 16 if the device allows it") {
  if (!runs_on_shim()) return;
  Graph graph;
  const NetworkShape network{"rnn", {2, 9, 3, 384}};
  build(graph, network, /*trains=*/false);
  for (const int multiprocessors : {18, 17}) {
    set_multiprocessors(multiprocessors);
    const auto shared = open_or_skip("shared"), global = open_or_skip("global");
    Program one(graph, *shared), other(graph, *global);
    check_same_bits(one, other, inputs_of(graph, network));
    const std::string loop = loops_of(one)[0];
    CHECK_MESSAGE(contains(loop, "(16 along units"), loop);
    CHECK_MESSAGE(passed_in(loop) == (multiprocessors == 18 ? 1 : 0), loop);  // fewer may have no cluster of 16
  }
  set_multiprocessors(4);
}

TEST_CASE("a loop whose blocks can be no cluster reads operands from the memory of the device, with the same bits") {
  if (!runs_on_shim()) return;
  for (const NetworkShape& network : k_networks) {
    CAPTURE(std::string(network.cell));
    Graph graph;
    build(graph, network);
    const auto clusters = open_or_skip("shared");
    cuda::set_tamper(leave_out_clusters);
    const auto none = open_or_skip("shared");
    cuda::set_tamper(nullptr);
    Program one(graph, *none), other(graph, *clusters);
    check_same_bits(one, other, inputs_of(graph, network));
    for (const std::string& loop : loops_of(one)) {
      CHECK_MESSAGE(!contains(loop, "cluster"), loop);
      CHECK_MESSAGE(passed_in(loop) == 0, loop);
    }
  }
}

namespace {

// Words of the memory of the device that kernels have accessed so far; null where no shim counts them.
std::uint64_t (*global_accesses())() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "unroll_shim_global_accesses")) : nullptr;
}

// Of launches of clusters, in the order of a run without graphs.
cuda::Functions real;
std::vector<std::uint64_t> words_of_clusters;
CUresult counted_launch(const CUlaunchConfig* config, CUfunction f, void** arguments, void** extra) {
  real.StreamSynchronize(config->hStream);
  const std::uint64_t before = global_accesses()();
  const CUresult result = real.LaunchKernelEx(config, f, arguments, extra);
  real.StreamSynchronize(config->hStream);
  words_of_clusters.push_back(global_accesses()() - before);
  return result;
}
void count_launches(cuda::Functions& functions) {
  if (!functions.LaunchKernelEx) return;
  real = functions;
  functions.LaunchKernelEx = counted_launch;
}

// Of the forward and of the backward loop of an LSTM.
struct StepBytes {
  std::int64_t bytes[2] = {0, 0};  // what a run of more steps accesses more
  int blocks = 0;                  // of a cluster
};
StepBytes bytes_of_step(const std::string& exchange, std::int64_t batch, std::int64_t hidden) {
  StepBytes of_step;
  for (const int steps : {6, 3}) {
    words_of_clusters.clear();
    Graph graph;
    const NetworkShape network{"lstm", {steps, batch, 8, hidden}};
    build(graph, network);
    PlanOptions options;
    options.precision = Precision::bf16;
    cuda::set_tamper(count_launches);
    const auto backend = open_or_skip(exchange);
    Program program(graph, *backend, options);
    program.run(inputs_of(graph, network));
    cuda::set_tamper(nullptr);
    REQUIRE(words_of_clusters.size() == 2);
    for (int k = 0; k < 2; ++k)
      of_step.bytes[k] += (steps == 6 ? 4 : -4) *
                          static_cast<std::int64_t>(words_of_clusters[static_cast<std::size_t>(k)]);
    const std::string loop = loops_of(program)[0];
    of_step.blocks = std::stoi(loop.substr(loop.find(" blocks (") + 9));
  }
  for (std::int64_t& bytes : of_step.bytes) bytes /= 3;
  return of_step;
}

}  // namespace

// UNROLL_CLUSTER_HIDDEN is another width, for which the figures are printed.
TEST_CASE("the blocks of a cluster do not read the operand of a product from the memory of the device") {
  if (!runs_on_shim()) return;
  const char* const wanted = std::getenv("UNROLL_CLUSTER_HIDDEN");
  const std::int64_t hidden = wanted ? std::atoi(wanted) : 64, rows = 16;
  set_multiprocessors(36);
  const StepBytes global = bytes_of_step("global", rows, hidden), shared = bytes_of_step("shared", rows, hidden);
  set_multiprocessors(4);
  // Each block of a group has read its rows of the state, or of the gradients of four gates, in 16 bits. The forward
  // command has one more word, which each of two groups reads.
  const std::int64_t state = 2 * shared.blocks * rows * hidden;
  CHECK(global.bytes[0] - shared.bytes[0] == state - 8 * 2 * shared.blocks);
  CHECK(global.bytes[1] - shared.bytes[1] == 4 * state);
  std::printf("LSTM H%d B16 in bf16, 2 clusters of %d blocks: %.1f KiB of a step forward instead of %.1f, %.1f KiB "
              "backward instead of %.1f\n",
              static_cast<int>(hidden), shared.blocks, static_cast<double>(shared.bytes[0]) / 1024,
              static_cast<double>(global.bytes[0]) / 1024, static_cast<double>(shared.bytes[1]) / 1024,
              static_cast<double>(global.bytes[1]) / 1024);
}

// docs/numerics.md: gradients within 8 ceil(log2 n) s, n the longest sum of a step times the steps.
TEST_CASE("products by wgmma agree with those of single warps, with the same bits in every run") {
  const auto groups = open_or_skip("shared", "true"), warps = open_or_skip("shared");
  if (!groups) return;
  set_multiprocessors(4);
  struct Of {
    NetworkShape network;
    bool backward;  // has as many columns in a block, too
  };
  // Tiles of 8 and of 16 rows, some of them empty, of one and two times 64 columns, and sums whose terms do not fill
  // instructions.
  for (const Precision precision : {Precision::bf16, Precision::f16})
    for (const Of& of : {Of{{"lstm", {4, 18, 8, 64}}, false}, Of{{"lstm", {3, 5, 5, 64}, true}, false},
                         Of{{"rnn", {3, 20, 6, 250}}, true}, Of{{"rnn", {3, 9, 6, 250}}, true}}) {
      CAPTURE(std::string(of.network.cell));
      CAPTURE(of.network.sizes.H);
      CAPTURE(static_cast<int>(precision));
      Graph graph;
      build(graph, of.network);
      PlanOptions options;
      options.precision = precision;
      Program one(graph, *groups, options), other(graph, *warps, options);
      const TensorMap inputs = inputs_of(graph, of.network);
      const TensorMap wanted = other.run(inputs), first = one.run(inputs), second = one.run(inputs);
      const Sizes& s = of.network.sizes;
      const double rounding = std::ldexp(1, precision == Precision::bf16 ? -8 : -11);
      const double allowed = 8 * std::ceil(std::log2(static_cast<double>(4 * s.H * s.T * s.B))) * rounding;
      for (const auto& result : first) {
        CAPTURE(result.first);
        CHECK(testing::distance(result.second, wanted.at(result.first)) <= allowed);
        CHECK(testing::same_bits(result.second, second.at(result.first)));
      }
      const std::vector<std::string> loops = loops_of(one);
      const auto by_wgmma =
          std::count_if(loops.begin(), loops.end(), [](const auto& loop) { return contains(loop, "by wgmma"); });
      if (runs_on_shim())  // another device has other blocks
        CHECK(by_wgmma == static_cast<std::ptrdiff_t>(of.backward ? loops.size() : loops.size() / 2));
      for (const std::string& loop : loops_of(other)) CHECK_MESSAGE(!contains(loop, "by wgmma"), loop);
    }
}

TEST_CASE("an exchange through shared memory without one of its barriers is reported") {
  if (!runs_on_shim()) return;
  struct Fault {
    const char *text, *instead;
    Precision precision = Precision::f32;
  };
  const Fault faults[] = {
      {"if (n.clustered != 0) unroll_cluster_wait(4u)", ""},  // before the first stores to other blocks
      {"wait == 1", "wait == 3"},                             // between stores to other blocks and their reads
      {"slot * B::SLOT", "0 * B::SLOT"},                      // one slot is written while other blocks read it
      {"  __syncthreads();\n  if (to", "  if (to"},           // between the results of a block and sending them
      {"wait == 1", "wait == 3", Precision::bf16},            // the same where wgmma reads
      {"  unroll_wgmma_begin();\n", "", Precision::bf16},
  };
  set_multiprocessors(4);
  for (const Fault& fault : faults) {
    CAPTURE(std::string(fault.text));
    Graph graph;
    build(graph, {"lstm", {3, 5, 3, 64}});
    PlanOptions options;
    options.precision = fault.precision;
    std::string failure;
    const testing::ChangedKernels changed(fault.text, fault.instead);
    try {
      const auto backend = open_or_skip("shared", "true");
      REQUIRE(backend);
      Program(graph, *backend, options).run(testing::small_numbers_for(graph, 3));
    } catch (const Error& error) {
      failure = error.what();
    }
    CHECK(changed.places() > 0);
    CHECK(contains(failure, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  }
}

TEST_CASE("results of wgmma that no wait precedes are seen") {
  if (!runs_on_shim()) return;
  set_multiprocessors(4);
  Graph graph;
  build(graph, {"lstm", {3, 5, 3, 64}}, /*trains=*/false);
  PlanOptions options;
  options.precision = Precision::bf16;
  const testing::ChangedKernels changed("  unroll_wgmma_end();\n#pragma", "#pragma");
  const auto backend = open_or_skip("shared", "true");
  const TensorMap results = Program(graph, *backend, options).run(testing::small_numbers_for(graph, 3));
  CHECK(changed.places() > 0);
  CHECK(std::isnan(results.at("y").at(0)));
}

}  // namespace unroll::test_cuda_clusters
