// SPDX-License-Identifier: Apache-2.0
// Barriers of recordings: between two commands that touch the same bytes, one of them writing, there is one, and almost
// none can be left out. UNROLL_SEED=n repeats a run, UNROLL_GRAPHS=n changes how many random graphs and loops there
// are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "core/train/update/update_graph.h"
#include "tests/backends/vulkan/vulkan_log.h"
#include "tests/conformance/random_graphs.h"
#include "tests/support/finite_difference.h"
#include "tests/support/gradient_outputs.h"
#include "tests/support/or_skip.h"
#include "tests/support/setting.h"
#include "tests/training/compare_models.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace test_vulkan_barriers {

using namespace unroll;
using namespace unroll::testing;
using device::Touch;
using vulkan::Command;
using vulkan::CommandLog;

namespace {

constexpr std::uint64_t k_random = 150;
constexpr double k_least_share = 0.99;

bool overlap(const Touch& a, const Touch& b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end;
}

bool clash(const std::vector<Touch>& a, const std::vector<Touch>& b) {
  for (const Touch& x : a)
    for (const Touch& y : b)
      if ((x.writes || y.writes) && overlap(x, y)) return true;
  return false;
}

// Whether the second needs a barrier between the two. What a dispatch binds counts as touched: drivers and the
// validation layer know no more.
bool needs_barrier(const Command& first, const Command& second) {
  if (first.unit == second.unit) return second.follows && clash(first.operands, second.operands);
  return clash(first.touches, second.touches) || clash(first.operands, second.operands) ||
         clash(first.operands, second.touches) || clash(first.touches, second.operands);
}

std::string name_of(const Command& command, const Logged& logged) {
  if (!command.work) return "copy";
  // Nodes of bodies have numbers of their own.
  const auto nodes = logged.plan->graph->nodes();
  const auto n = static_cast<std::size_t>(command.work->node);
  const bool is_outer = std::any_of(logged.program.main->works.begin(), logged.program.main->works.end(),
                                    [&](const vulkan::NodeWork& work) { return &work == command.work; });
  return (is_outer ? std::string(op_info(nodes[n].op).name) : "node of a loop") + " %" + std::to_string(n);
}

using Epoch = std::vector<const Command*>;  // commands without a barrier between them

std::vector<Epoch> epochs_of(const CommandLog& commands) {
  std::vector<Epoch> epochs(1);
  for (const Command& command : commands) {
    if (command.is_barrier) epochs.emplace_back();
    else epochs.back().push_back(&command);
  }
  return epochs;
}

struct Counts {
  int recordings = 0, commands = 0, barriers = 0, reported = 0, shown = 0;

  void check(const Logged& logged) {
    const std::vector<Epoch> epochs = epochs_of(logged.commands);
    ++recordings;
    for (std::size_t e = 0; e < epochs.size(); ++e) {
      commands += static_cast<int>(epochs[e].size());
      for (std::size_t j = 1; j < epochs[e].size(); ++j)
        for (std::size_t i = 0; i < j; ++i)
          if (needs_barrier(*epochs[e][i], *epochs[e][j]))
            FAIL_CHECK("no barrier between " << name_of(*epochs[e][i], logged) << " and "
                                             << name_of(*epochs[e][j], logged));
      if (e == 0) continue;
      ++barriers;
      const bool reports = std::any_of(epochs[e - 1].begin(), epochs[e - 1].end(), [&](const Command* first) {
        return std::any_of(epochs[e].begin(), epochs[e].end(),
                           [&](const Command* second) { return needs_barrier(*first, *second); });
      });
      reported += reports;
      if (reports || shown++ >= 5) continue;
      const auto name = [&](const Epoch& epoch) { return epoch.empty() ? "nothing" : name_of(*epoch.back(), logged); };
      std::printf("not needed: the barrier between %s and %s\n", name(epochs[e - 1]).c_str(), name(epochs[e]).c_str());
    }
  }
  void print(const char* what) const {
    std::printf("%s: %d recordings, %d dispatches and copies, %d barriers, %d reported when left out: %.2f %%\n", what,
                recordings, commands, barriers, reported, 100.0 * reported / std::max(barriers, 1));
  }
  bool suffices() const { return reported >= k_least_share * barriers; }
};

std::unique_ptr<Logger> open_or_skip() {
  return testing::or_skip([&] { return std::make_unique<Logger>(); });
}

std::shared_ptr<Graph> with_gradient(RandomGraph random) {
  append_gradient(*random.graph, 1);
  return random.graph;
}

}  // namespace

TEST_CASE("cells, forward and trained: every barrier that is left out is reported in 99 of 100 cases") {
  const auto logger = open_or_skip();
  if (!logger) return;
  Counts counts;
  for (const char* cell : {"rnn", "lstm", "gru", "lnlstm", "indrnn"})
    for (const bool bidirectional : {false, true})
      for (const bool trains : {false, true}) {
        CAPTURE(cell);
        CAPTURE(trains);
        Graph graph;
        Scope scope(graph);
        const Value x = graph.input("x", {DType::f32, {6, 5, 7}});
        const RecurrentModelOptions model{.cell = cell, .hidden = 9, .layers = 2, .bidirectional = bidirectional};
        const Value y = recurrent_model(scope, x, model).y;
        if (trains) output_gradients(scope, mean(square(y)));
        graph.output("y", y);
        counts.check(logger->log(graph));
      }
  counts.print("cells");
  CHECK(counts.suffices());
}

TEST_CASE("updates of the twelve models: every barrier that is left out is reported in 99 of 100 cases") {
  const auto logger = open_or_skip();
  if (!logger) return;
  Counts counts;
  for (const ComparedModel& model : compare_models()) {
    CAPTURE(model.name);
    const Batch batch = model.task->batch(Split::train, 1, 0, 0);
    const UpdateConfig recipe{TrainerOptions()};
    counts.check(logger->log(*build_update(*model.task, batch, recipe, Phase::whole).graph));
  }
  counts.print("updates");
  CHECK(counts.suffices());
}

TEST_CASE("random graphs and loops: every barrier that is left out is reported in 99 of 100 cases") {
  const auto logger = open_or_skip();
  if (!logger) return;
  const std::uint64_t seed = setting("UNROLL_SEED", std::random_device()()), n = setting("UNROLL_GRAPHS", k_random);
  std::printf("random recordings: UNROLL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Counts counts;
  for (std::uint64_t k = 0; k < n; ++k) {
    CAPTURE(k);
    counts.check(logger->log(*with_gradient(random_graph(mixed(seed, k), DType::f32))));
    counts.check(logger->log(*with_gradient(random_scans(mixed(seed, k), DType::f32))));
  }
  counts.print("random");
  CHECK(counts.suffices());
}

TEST_CASE("a barrier is needed where a command writes what the other touches, and only there") {
  int a = 0, b = 0;
  const auto command = [](int unit, std::vector<Touch> touches) {
    return Command{.unit = unit, .touches = std::move(touches)};
  };
  const Command writes_a = command(1, {{&a, 0, 8, true}}), reads_a = command(2, {{&a, 4, 12, false}});
  CHECK(needs_barrier(writes_a, reads_a));
  CHECK(needs_barrier(reads_a, writes_a));
  CHECK(needs_barrier(writes_a, command(3, {{&a, 0, 8, true}})));
  CHECK_FALSE(needs_barrier(reads_a, command(3, {{&a, 4, 12, false}})));
  CHECK_FALSE(needs_barrier(writes_a, command(3, {{&b, 0, 8, true}})));
  CHECK_FALSE(needs_barrier(writes_a, command(3, {{&a, 8, 12, true}})));
}

}  // namespace test_vulkan_barriers
