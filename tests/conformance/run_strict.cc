// SPDX-License-Identifier: Apache-2.0
// The strict device: plans of every kind of backend keep what docs/adding-a-backend.md promises, and it notices those
// that do not. UNROLL_CASES=n tries every n-th case and the first of each op.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "tests/conformance/random_graphs.h"
#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "tests/support/finite_difference.h"
#include "tests/support/setting.h"
#include "tests/support/strict.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::uint64_t k_random = 100;

struct Counts {
  std::size_t plans = 0, bodies = 0, tasks = 0, edges = 0, noticed = 0;
  void add(const Plan& plan, const common::Hazards& hazards) {
    tasks += hazards.tasks.size();
    edges += hazards.edges.size();
    for (std::size_t i = 0; i < hazards.bodies.size(); ++i)
      if (hazards.bodies[i]) ++bodies, add(*plan.bodies[i], *hazards.bodies[i]);
  }
  void print(const char* what) const {
    std::printf("%s: %zu plans and %zu bodies, %zu tasks, %zu edges\n", what, plans, bodies, tasks, edges);
  }
};

void check_plan(const Plan& plan, Counts& counts) {
  const common::Hazards hazards = common::hazards_of(plan);
  ++counts.plans;
  counts.add(plan, hazards);
  for (const std::string& finding : strict::violations(plan, hazards)) FAIL_CHECK(finding);
}

// One of each kind: with views and packing, with claims, plain, with nothing but claims, and with forks.
std::vector<std::unique_ptr<Backend>> planned_for() {
  std::vector<std::unique_ptr<Backend>> list;
  for (const BackendStatus& status : list_backends())
    if (status.available) list.push_back(make_backend(status.name, {.threads = 1}));
  list.push_back(make_backend("cpu", {.threads = 2}));
  list.push_back(make_backend("vulkan:generic"));  // aligned to 256 bytes, two lanes
  return list;
}

// Each way to leave out one pass of the memory plan, and the whole pipeline.
const std::vector<PlanOptions>& ways() {
  static const std::vector<PlanOptions> list = [] {
    std::vector<PlanOptions> ways(5);
    ways[1].without = {"views"};
    ways[2].without = {"in_place"};
    ways[3].without = {"fuse"};
    ways[4].precision = Precision::bf16;
    return ways;
  }();
  return list;
}

// Plans with views in all ways, others in the first and the last.
void check_graph(const Graph& graph, std::span<const std::unique_ptr<Backend>> backends, Counts& counts) {
  for (const auto& backend : backends) {
    CAPTURE(backend->describe().name);
    const bool all = backend->describe().views && backend->describe().deterministic;
    for (std::size_t k = 0; k < ways().size(); k += all ? 1 : ways().size() - 1)
      check_plan(*plan(graph, *backend, ways()[k]), counts);
  }
}

std::shared_ptr<Graph> with_gradient(RandomGraph random) {
  append_gradient(*random.graph, 1);
  return random.graph;
}

}  // namespace

TEST_CASE("the plans of all cases and their gradients keep their promises") {
  const auto backends = planned_for();
  Counts counts;
  for (const Case& c : chosen_cases())
    for (int order = 0; order <= (c.differentiable ? 1 : 0); ++order) {
      CAPTURE(c.name);
      CAPTURE(order);
      check_graph(*gradient_graph(c, DType::f32, order), backends, counts);
    }
  counts.print("cases");
}

TEST_CASE("the plans of random graphs and scan bodies keep their promises") {
  const std::uint64_t seed = setting("UNROLL_SEED", std::random_device()()), n = setting("UNROLL_GRAPHS", k_random);
  std::printf("random plans: UNROLL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const auto backends = planned_for();
  Counts counts;
  for (std::uint64_t k = 0; k < n; ++k) {
    CAPTURE(k);
    INFO(print_graph(*random_scans(mixed(seed, k), DType::f32).graph));
    check_graph(*with_gradient(random_graph(mixed(seed, k), DType::f32)), backends, counts);
    check_graph(*with_gradient(random_scans(mixed(seed, k), DType::f32)), backends, counts);
  }
  counts.print("random");
}

// ---- broken plans

namespace {

// Plans to break, for each kind of backend in turn: every `step`-th case, every tenth if UNROLL_CASES is set, and some
// random scan bodies.
std::vector<std::shared_ptr<const Plan>> plans_to_break(std::size_t step) {
  if (setting("UNROLL_CASES", 1) > 1) step = 10;
  std::vector<std::shared_ptr<const Plan>> list;
  const auto backends = planned_for();
  std::size_t k = 0;
  for (const Case& c : all_cases())
    if (k++ % step == 0) {
      const Backend& backend = *backends[k / step % backends.size()];
      list.push_back(plan(*gradient_graph(c, DType::f32, c.differentiable ? 1 : 0), backend));
    }
  for (std::uint64_t seed = 0; seed < 12; ++seed)
    list.push_back(plan(*with_gradient(random_scans(seed, DType::f32)), *backends[seed % backends.size()]));
  return list;
}

bool notices(const Plan& plan, const common::Hazards& hazards) { return !strict::violations(plan, hazards, 1).empty(); }

// Calls f(plan, hazards) for a plan and its bodies.
template <class F>
void for_each_level(const Plan& plan, const common::Hazards& hazards, F f) {
  f(plan, hazards);
  for (std::size_t i = 0; i < hazards.bodies.size(); ++i)
    if (hazards.bodies[i]) for_each_level(*plan.bodies[i], *hazards.bodies[i], f);
}

}  // namespace

TEST_CASE("the strict device notices each edge that is missing") {
  std::size_t n = 0, missed = 0;
  for (const auto& plan : plans_to_break(2))
    for_each_level(*plan, common::hazards_of(*plan), [&](const Plan& level, const common::Hazards& hazards) {
      for (std::size_t k = 0; k < hazards.edges.size(); ++k) {
        common::Hazards broken = hazards;
        broken.edges.erase(broken.edges.begin() + static_cast<std::ptrdiff_t>(k));
        ++n;
        missed += !notices(level, broken);
      }
    });
  std::printf("%zu edges left out one by one, %zu not noticed\n", n, missed);
  CHECK(n > 1000);
  CHECK(missed == 0);
}

TEST_CASE("the strict device notices each stated range that is shifted by one byte") {
  std::size_t n = 0, missed = 0;
  for (const auto& plan : plans_to_break(5))
    for_each_level(*plan, common::hazards_of(*plan), [&](const Plan& level, const common::Hazards& hazards) {
      for (std::size_t task = 0; task < hazards.tasks.size(); ++task)
        for (const bool of_writes : {false, true}) {
          const auto& regions = of_writes ? hazards.tasks[task].writes : hazards.tasks[task].reads;
          for (std::size_t r = 0; r < regions.size(); ++r) {
            common::Hazards broken = hazards;
            auto& region = (of_writes ? broken.tasks[task].writes : broken.tasks[task].reads)[r];
            // A region that another one holds too is as well stated without it.
            const auto same = [&](const common::Region& other) { return other.space == region.space; };
            if (std::count_if(regions.begin(), regions.end(), same) > 1) continue;
            ++region.ranges[0].begin;
            ++region.ranges[0].end;
            ++n;
            missed += !notices(level, broken);
          }
        }
    });
  std::printf("%zu ranges shifted by one byte, %zu not noticed\n", n, missed);
  CHECK(n > 500);
  CHECK(missed == 0);
}

// The plan itself is wrong, and its hazards follow from it.
TEST_CASE("the strict device notices values that are moved onto others, or by one byte") {
  std::size_t n = 0, missed = 0;
  for (const auto& good : plans_to_break(5)) {
    const auto nodes = good->graph->nodes();
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      const Storage& storage = good->storage[id][0];
      if (storage.place != Storage::Place::arena || nodes[id].outputs[0].bytes() == 0) continue;
      if (op_info(nodes[id].op).kind == OpKind::move) continue;  // parts and readings of other values
      if (nodes[id].outputs[0].dtype == DType::b8) continue;     // may lie anywhere
      Plan plan = *good;
      plan.storage[id][0].offset += 1;
      ++n;
      missed += !notices(plan, common::hazards_of(plan));
    }
    // An operand of a node that needs it whole, moved onto the result.
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      const Op op = nodes[id].op;
      if (op != Op::matmul && op != Op::reduce_sum && op != Op::gather && op != Op::scan) continue;
      const ValueId from = nodes[id].inputs[0];
      Plan plan = *good;
      Storage& operand = plan.storage[static_cast<std::size_t>(from.node)][static_cast<std::size_t>(from.output)];
      const Storage& result = plan.storage[id][0];
      if (operand.place != Storage::Place::arena || result.place != Storage::Place::arena) continue;
      if (plan.graph->type(from).bytes() == 0 || nodes[id].outputs[0].bytes() == 0) continue;
      operand.offset = result.offset;
      ++n;
      missed += !notices(plan, common::hazards_of(plan));
    }
  }
  std::printf("%zu values moved, %zu not noticed\n", n, missed);
  CHECK(n > 100);
  CHECK(missed == 0);
}
