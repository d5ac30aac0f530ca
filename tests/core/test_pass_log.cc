// SPDX-License-Identifier: Apache-2.0
// What passes say of their work in Plan::notes, and how a caller ends it.
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "backends/registry.h"
#include "core/passes/passes.h"
#include "core/support/interruption.h"
#include "unroll/ir/ops.h"

namespace unroll {
namespace {

bool says(const std::vector<PassNote>& notes, std::string_view pass, std::string_view what) {
  return std::any_of(notes.begin(), notes.end(), [&](const PassNote& note) {
    return note.pass == pass && note.what.find(what) != std::string::npos;
  });
}

// h' = tanh(x U + h W), y = h' V, for 7 steps of 3 rows
void append_loop(Graph& g) {
  const Value h = g.input("h", {DType::f32, {3, 4}}), x = g.input("x", {DType::f32, {7, 3, 5}});
  const Value u = g.input("u", {DType::f32, {5, 4}}), w = g.input("w", {DType::f32, {4, 4}});
  const Value v = g.input("v", {DType::f32, {4, 2}});
  const ScanResult r =
      scan(std::vector{h}, std::vector{x}, std::vector{u, w, v}, [](const StepValues& s) -> StepResult {
        const Value next = tanh(matmul(s.sequences[0], s.constants[0]) + matmul(s.states[0], s.constants[1]));
        return {{next}, {matmul(next, s.constants[2])}};
      });
  g.output("y", r.outputs[0]);
}

TEST_CASE("split says what left the loop, what stayed, and in which loop") {
  Graph g;
  append_loop(g);
  PassLog log;
  log.begin("split");
  split_scans(g, {}, &log);
  const auto notes = log.take();
  CHECK(notes.size() == 3);
  CHECK(says(notes, "split", "hoisted matmul f32[3,4]"));
  CHECK(says(notes, "split", "kept matmul f32[3,4]"));
  CHECK(says(notes, "split", "sank matmul f32[3,2]"));
  for (const PassNote& note : notes) CHECK(note.where == "loop of 7 steps, reads u w and 1 more, states f32[3,4]");
}

TEST_CASE("equal notes are one note with a count; another pass or loop makes another") {
  Graph g;
  append_loop(g);
  const auto nodes = g.nodes();
  const Node& loop = *std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == Op::scan; });
  PassLog log;
  log.begin("a");
  log.add("did", "because");
  log.add("did", "because");
  log.add("did", "for another reason");
  {
    const InLoop in_loop(&log, g, loop);
    log.add("did", "because");
  }
  log.begin("b");
  log.add("did", "because");
  const auto notes = log.take();
  REQUIRE(notes.size() == 4);
  CHECK(notes[0].count == 2);
  CHECK(notes[1].why == "for another reason");
  CHECK(notes[2].where == "loop of 7 steps, reads u w and 1 more, states f32[3,4]");
  CHECK(notes[3].pass == "b");
}

TEST_CASE("a plan has the notes of all passes that had something to say, and none of those left out") {
  Graph g;
  append_loop(g);
  const auto backend = make_backend("cpu");
  const auto with = plan(g, *backend), without = plan(g, *backend, {.without = {"split"}});
  CHECK(says(with->notes, "split", "hoisted"));
  CHECK(says(with->notes, "fuse", "fused"));
  CHECK(!says(without->notes, "split", ""));
}

TEST_CASE("a refused composite is noted with the backend's reason") {
  Graph g;
  g.output("y", softmax(g.input("x", {DType::f32, {2, 3}})));
  const auto made = plan(g, *make_backend("reference"));
  REQUIRE(says(made->notes, "claim", "expanded softmax f32[2,3]"));
  CHECK(made->notes[0].why == "the reference backend runs the bodies of composites");
}

TEST_CASE("a hook of the thread ends planning, and is forgotten with its end") {
  Graph g;
  append_loop(g);
  const auto backend = make_backend("reference");
  int asked = 0;
  {
    const InterruptionHook outer([&] { asked = -1000; });
    const InterruptionHook hook([&] {
      if (++asked == 3) throw std::runtime_error("enough");
    });
    CHECK_THROWS_WITH(plan(g, *backend), "enough");
  }
  CHECK(asked == 3);
  CHECK(plan(g, *backend)->graph->outputs().size() == 1);
}

}  // namespace
}  // namespace unroll
