// SPDX-License-Identifier: Apache-2.0
// Loops of the cuda backend as one kernel: the bits of their steps, and which loops stay steps. Skips with the reason
// when there is no device.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/gradient_outputs.h"
#include "tests/support/loop_networks.h"
#include "tests/support/or_skip.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::test_cuda_loops {
namespace {

struct Sizes {
  std::int64_t T, B, I, H;
};
// None is a multiple of a tile, and the last has several tiles in each direction.
constexpr Sizes k_sizes[] = {{1, 2, 3, 1}, {2, 1, 5, 7}, {5, 3, 6, 9}, {4, 37, 11, 19}, {3, 34, 3, 70}};

// In the library's products a loop as steps would have other bits.
std::unique_ptr<Backend> open_or_skip(const std::string& loops) {
  return testing::or_skip([&] { return make_backend("cuda", {.specific = {{"loops", loops}, {"products", "own"}}}); });
}

void build(Graph& graph, const std::string& cell, const Sizes& s, DType dtype) {
  Scope scope(graph, /*training=*/true, dtype);
  const Value x = graph.input("x", {dtype, {s.T, s.B, s.I}});
  const Value y = recurrent_model(scope, x, {.cell = cell, .hidden = s.H}).y;
  testing::output_gradients(scope, mean(square(y)));
  graph.output("y", y);
}

// Loops of a program, and how many of them are one kernel.
struct Loops {
  int all = 0, whole = 0;
};
Loops loops_of(const Program& program) {
  Loops loops;
  for (const ReportLine& line : program.executable().report()) {
    if (line.implementation.find("steps of") == std::string::npos) continue;
    ++loops.all;
    if (line.implementation.find("all in one kernel") != std::string::npos) ++loops.whole;
  }
  return loops;
}

}  // namespace

TEST_CASE("a loop as one kernel has the bits of its steps, forward and backward, in run after run") {
  const auto steps = open_or_skip("steps"), whole = open_or_skip("whole");
  if (!whole) return;
  for (const char* cell : {"rnn", "gru", "lstm"})
    for (const Sizes& s : k_sizes) {
      CAPTURE(cell);
      CAPTURE(s.H);
      Graph graph;
      build(graph, cell, s, DType::f32);
      Program one(graph, *whole), many(graph, *steps);
      if (s.T > 1) {  // one step is no loop
        CHECK(loops_of(one).all == 2);
        CHECK(loops_of(one).whole == 2);
      }
      CHECK(loops_of(many).whole == 0);
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

TEST_CASE("loops whose products are large stay steps") {
  const auto whole = open_or_skip("whole");
  if (!whole) return;
  Graph graph;
  build(graph, "lstm", {2, 128, 8, 512}, DType::f32);
  const Loops loops = loops_of(Program(graph, *whole));
  CHECK(loops.all == 2);
  CHECK(loops.whole == 0);
}

}  // namespace unroll::test_cuda_loops
