// SPDX-License-Identifier: Apache-2.0
// Which small calls leave a loop; that results stay the same is the random graphs' business.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include "core/passes/passes.h"
#include "tests/core/small_graphs.h"
#include "unroll/ir/ops.h"

namespace unroll {
namespace {

using testing::count;
using testing::f32;

constexpr Type i32(Shape shape) { return {DType::i32, shape}; }

const Graph& body_of(const Graph& graph) {
  const auto nodes = graph.nodes();
  const auto at = std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == Op::scan; });
  REQUIRE(at != nodes.end());
  return *at->body;
}

TEST_CASE("small calls that no state needs, or that need no state, leave the loop") {
  Graph g;
  const Value h = g.input("h", f32({1, 4})), x = g.input("x", f32({7, 1, 3})), label = g.input("label", i32({7, 1})),
              w = g.input("w", f32({4, 4})), names = g.input("names", i32({1, 9}));
  const ScanResult r = scan(
      std::vector{h}, std::vector{x, label}, std::vector{w, names}, [](const StepValues& s) -> StepResult {
        const Value next = tanh(matmul(s.states[0], s.constants[0]));
        const Value is_label = equal(s.constants[1], reshape(s.sequences[1], {1, 1}));
        return {{next}, {concat(std::vector{next, s.sequences[0]}, 1), is_label, next * 2.0}};
      });
  for (std::size_t k = 0; k < r.outputs.size(); ++k) g.output("y" + std::to_string(k), r.outputs[k]);
  const auto split = scan_dce(*split_calls(g));
  const Graph& body = body_of(*split);
  CHECK(count(body, Op::concat) == 0);
  CHECK(count(body, Op::equal) == 0);
  CHECK(count(body, Op::mul) == 1);  // it fuses with the state
  CHECK(count(*split, Op::concat) == 1);
  CHECK(count(*split, Op::equal) == 1);
}

TEST_CASE("what enters a loop instead of being computed there is small") {
  const auto left = [](std::int64_t width) {
    Graph g;
    const Value h = g.input("h", f32({1, width})), x = g.input("x", f32({7, 1, 1})), v = g.input("v", f32({1, width}));
    const ScanResult r =
        scan(std::vector{h}, std::vector{x}, std::vector{v}, [&](const StepValues& s) -> StepResult {
          const Value row = reshape(s.sequences[0] * s.constants[0], {width});
          return {{reshape(reshape(s.states[0], {width}) + row, {1, width})}, {}};
        });
    g.output("h", r.states[0]);
    return count(body_of(*scan_dce(*split_calls(g))), Op::mul) == 0;
  };
  CHECK(left(1000));
  CHECK_FALSE(left(100'000));
}

}  // namespace
}  // namespace unroll
