// SPDX-License-Identifier: Apache-2.0
// Loops of the cuda backend whose blocks keep the weights for all steps: against their steps, forward and backward.
// Skips with the reason when there is no device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

namespace unroll::test_cuda_resident {
namespace {

using testing::contains;
using testing::loops_of;
using testing::number_before;
struct Sizes {
  std::int64_t T, B, I, H;
};

std::unique_ptr<Backend> open_or_skip(const std::string& loops) {
  return testing::or_skip([&] { return make_backend("cuda", {.specific = {{"loops", loops}, {"products", "own"}}}); });
}

// Made up: a gate before one product and a norm behind another, so that a step exchanges its values three times.
const TextCell k_text_cell{.name = "blend",
                           .states = {"h", "s"},
                           .step = "g = sigmoid(affine(x, h))\n"
                                   "n = tanh(layer_norm(affine(x, g * h)))\n"
                                   "s' = 0.5 * s + n\n"
                                   "h' = (1 - g) * h + g * n + 0.1 * s"};

RecurrentModelOptions options_of(const std::string& cell, std::int64_t hidden) {
  RecurrentModelOptions options{.cell = cell, .hidden = hidden, .cells = {k_text_cell}};
  const std::size_t with = cell.find('+');
  options.cell = cell.substr(0, with);
  const std::string how = with == std::string::npos ? "" : cell.substr(with + 1);
  if (how == "dropout") options.recurrent_dropout = 0.3;
  if (how == "projection") options.projection = 5;
  if (how == "reset before") options.reset_after = false;
  return options;
}

void build(Graph& graph, const std::string& cell, const Sizes& s, DType dtype = DType::f32) {
  Scope scope(graph, /*training=*/true, dtype);
  const Value x = graph.input("x", {dtype, {s.T, s.B, s.I}});
  const Value y = recurrent_model(scope, x, options_of(cell, s.H)).y;
  testing::output_gradients(scope, mean(square(y)));
  graph.output("y", y);
}

bool runs_on_shim() {
  const auto backend = open_or_skip("steps");
  return backend && testing::is_shim(*backend);
}

}  // namespace

TEST_CASE("resident loops have the bits of their steps where one warp adds up the whole product, in run after run") {
  const auto steps = open_or_skip("steps"), resident = open_or_skip("resident-units");
  if (!resident) return;
  for (const char* cell : {"rnn", "gru", "gru+reset before", "lstm", "lstm+projection", "lstm+dropout", "blend"})
    for (const Sizes& s : {Sizes{4, 17, 5, 7}, Sizes{3, 3, 6, 8}, Sizes{2, 1, 3, 1}}) {
      if (std::string(cell) == "lstm+projection" && s.H < 6) continue;
      CAPTURE(cell);
      CAPTURE(s.H);
      Graph graph;
      build(graph, cell, s);
      Program one(graph, *resident), many(graph, *steps);
      for (const std::string& loop : loops_of(one)) CHECK_MESSAGE(contains(loop, "weights resident in "), loop);
      const TensorMap inputs = testing::small_numbers_for(graph, 3);
      const TensorMap wanted = many.run(inputs);
      for (int run = 0; run < 3; ++run)  // the third is a CUDA graph
        for (const auto& result : one.run(inputs)) {
          CAPTURE(result.first);
          CAPTURE(run);
          CHECK(testing::same_bits(result.second, wanted.at(result.first)));
        }
    }
}

// docs/numerics.md: gradients within 8 ceil(log2 n) s, n the longest sum of a step times the steps.
TEST_CASE("resident loops agree with their steps in every precision, with the same bits in every run") {
  const auto steps = open_or_skip("steps"), small = open_or_skip("resident"), spread = open_or_skip("resident-units");
  if (!small) return;
  struct Of {
    const char* cell;
    Sizes sizes;
  };
  const Of all[] = {{"lstm", {4, 18, 8, 48}},  {"gru", {3, 17, 5, 40}},   {"gru+reset before", {3, 9, 4, 33}},
                    {"lnlstm", {3, 16, 8, 32}}, {"blend", {3, 10, 8, 48}}, {"lstm+dropout", {3, 5, 4, 37}},
                    {"lstm", {2, 33, 3, 21}}};
  for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16})
    for (const Of& of : all) {
      const bool is_short = precision == Precision::tf32 || precision == Precision::f16;
      if (is_short && &of - all > 2) break;  // the others differ in what is the same in all precisions
      CAPTURE(std::string(of.cell));
      CAPTURE(static_cast<int>(precision));
      Graph graph;
      build(graph, of.cell, of.sizes);
      PlanOptions options;
      options.precision = precision;
      const bool is_spread = of.sizes.H % 2 == 0;
      Program one(graph, is_spread ? *spread : *small, options), many(graph, *steps, options);
      for (const std::string& loop : loops_of(one)) {
        CHECK_MESSAGE(contains(loop, "weights resident in "), loop);
        const bool is_narrow = precision == Precision::bf16 || precision == Precision::f16;
        if (is_narrow) CHECK_MESSAGE(contains(loop, "tensor cores"), loop);
        if (precision == Precision::f32) CHECK_MESSAGE(!contains(loop, "tensor cores"), loop);
      }
      const double s = precision == Precision::f32    ? std::ldexp(1, -24)
                       : precision == Precision::bf16 ? std::ldexp(1, -8)
                                                      : std::ldexp(1, -11);
      const auto n = static_cast<double>(4 * of.sizes.H * of.sizes.T * of.sizes.B);
      const double allowed = 8 * std::ceil(std::log2(n)) * s;
      const TensorMap inputs = testing::small_numbers_for(graph, 3);
      const TensorMap wanted = many.run(inputs), first = one.run(inputs), second = one.run(inputs);
      for (const auto& result : first) {
        CAPTURE(result.first);
        CHECK(testing::distance(result.second, wanted.at(result.first)) <= allowed);
        CHECK(testing::same_bits(result.second, second.at(result.first)));
      }
    }
}

TEST_CASE("the blocks of a resident loop wait once for each exchange of a step, and not if each has all units") {
  const auto small = open_or_skip("resident"), resident = open_or_skip("resident-units");
  if (!small) return;
  struct Waits {
    const char* cell;
    Precision precision;
    int forward, backward;  // of a step
  };
  constexpr int T = 6;
  for (const Waits& w :
       {Waits{"rnn", Precision::f32, 1, 1}, Waits{"lstm", Precision::f32, 1, 1}, Waits{"lstm", Precision::tf32, 1, 1},
        Waits{"lstm", Precision::bf16, 1, 1}, Waits{"gru", Precision::f32, 1, 1}, Waits{"gru", Precision::bf16, 1, 1},
        Waits{"gru+reset before", Precision::f32, 2, 2}, Waits{"lnlstm", Precision::f32, 2, 2}}) {
    CAPTURE(w.cell);
    CAPTURE(static_cast<int>(w.precision));
    Graph graph;
    build(graph, w.cell, {T, 16, 8, 32});
    PlanOptions options;
    options.precision = w.precision;
    Program program(graph, *resident, options);
    program.run(testing::small_numbers_for(graph, 3));
    const std::vector<std::string> loops = loops_of(program);
    REQUIRE(loops.size() == 2);
    for (int k = 0; k < 2; ++k) {
      const std::string& loop = loops[static_cast<std::size_t>(k)];
      const int wanted = k == 0 ? w.forward : w.backward;
      const int waits = number_before(loop, " waits of the grid") + number_before(loop, " of the blocks of some rows");
      CHECK_MESSAGE(waits <= wanted * T, loop);
      CHECK_MESSAGE(waits >= wanted * T - 1, loop);  // none after the last step
      // Groups of rows do not wait for each other, but before copies at the end.
      if (w.forward == 1) CHECK_MESSAGE(number_before(loop, " waits of the grid") <= 1, loop);
    }
    if (w.forward > 1) continue;  // other things than units are exchanged, or memory is used again
    Program alone(graph, *small, options);
    alone.run(testing::small_numbers_for(graph, 3));
    for (const std::string& loop : loops_of(alone)) {
      CHECK_MESSAGE(contains(loop, "(1 along units"), loop);
      CHECK_MESSAGE(number_before(loop, " waits of the grid") <= 1, loop);
      CHECK_MESSAGE(number_before(loop, " of the blocks of some rows") == 0, loop);
    }
  }
}

TEST_CASE("loops that cannot keep their weights say why and run in another form") {
  const auto resident = open_or_skip("resident");
  if (!resident) return;
  const auto loops = [&](const char* cell, const Sizes& s, DType dtype) {
    Graph graph;
    build(graph, cell, s, dtype);
    return loops_of(Program(graph, *resident));
  };
  for (const std::string& loop : loops("lstm", {3, 2, 3, 4}, DType::f64)) {
    CHECK_MESSAGE(contains(loop, "all in one kernel"), loop);
    CHECK_MESSAGE(contains(loop, "not resident, because %"), loop);
    CHECK_MESSAGE(contains(loop, "matmul is not in f32"), loop);
  }
  for (const std::string& loop : loops("indrnn", {3, 2, 3, 4}, DType::f32))
    CHECK_MESSAGE(contains(loop, "not resident, because no product by a weight"), loop);
  const std::vector<std::string> large = loops("lstm", {2, 128, 8, 2048}, DType::f32);
  if (!runs_on_shim()) return;  // a larger device keeps them
  for (const std::string& loop : large) {
    CHECK_MESSAGE(contains(loop, "not resident, because the weights do not fit: "), loop);
    CHECK_MESSAGE(contains(loop, "steps, because %"), loop);
  }
}

TEST_CASE("a resident loop without one of its barriers is reported as a race") {
  if (!runs_on_shim()) return;
  struct Barrier {
    const char *text, *instead;
    std::int64_t rows;
  };
  constexpr std::int64_t k_two_groups = 17, k_several_tiles = 130;  // of a block
  const Barrier barriers[] = {
      {"if (wait == 2)", "if (wait == 3)", k_two_groups},  // of the grid, before the last states are copied
      {"wait == 1", "wait == 3", k_two_groups},            // of the blocks of a group, as a cluster or not
      // Between the sums of the warps and their readers, and before the sums of the next tile of rows.
      {"rows_end);\n    __syncthreads();", "rows_end);\n", k_two_groups},
      {"    }\n    __syncthreads();\n  }\n}\n", "    }\n  }\n}\n", k_several_tiles},
      // Behind the weights and the words of a command.
      {"= next;\n    __syncthreads();", "= next;\n", k_two_groups},
  };
  for (const Barrier& barrier : barriers) {
    CAPTURE(std::string(barrier.text));
    Graph graph;
    build(graph, "lstm", {2, barrier.rows, 3, 20});
    std::string failure;
    const testing::ChangedKernels changed(barrier.text, barrier.instead);
    try {
      const auto backend = open_or_skip("resident-units");
      REQUIRE(backend);
      Program(graph, *backend).run(testing::small_numbers_for(graph, 3));
    } catch (const Error& error) {
      failure = error.what();
    }
    CHECK(changed.places() > 0);
    CHECK(contains(failure, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  }
}

}  // namespace unroll::test_cuda_resident
