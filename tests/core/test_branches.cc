// SPDX-License-Identifier: Apache-2.0
// Loops that do not depend on each other: found, put side by side, in memory that lets them run at once, with the bits
// of one thread.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "backends/common/hazards.h"
#include "core/passes/memory/branches.h"
#include "tests/support/backend_options.h"
#include "tests/support/gradient_outputs.h"
#include "tests/support/setting.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/trace.h"

namespace unroll {
namespace {

struct Network {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  TensorMap inputs;
};

void give_inputs(Network& network, std::span<const ParameterSpec> parameters) {
  network.inputs = initialize(parameters, 1);
  std::vector<ParameterSpec> others;
  for (const NamedValue& input : network.graph->inputs())
    if (!network.inputs.contains(input.name))
      others.push_back({input.name, network.graph->type(input.value), Initializer::uniform(1)});
  network.inputs.merge(initialize(others, 2));
}

// Outputs are the loss and its gradients.
Network trained(const std::string& cell, int layers, bool bidirectional, std::int64_t hidden = 16) {
  Network n;
  Scope scope(*n.graph);
  const Value x = n.graph->input("x", {DType::f32, {5, 4, 8}});
  const RecurrentModelOptions options{.cell = cell, .hidden = hidden, .layers = layers, .bidirectional = bidirectional};
  const Value y = recurrent_model(scope, x, options).y;
  const Value loss = mean(square(y));
  n.graph->output("loss", loss);
  testing::output_gradients(scope, loss);
  give_inputs(n, scope.parameters());
  return n;
}

constexpr std::int64_t k_steps = 4, k_rows = 3, k_units = 8;

Value loop(Value first, Value sequence, Value weight, bool reverse) {
  return scan(std::vector<Value>{first}, std::vector<Value>{sequence}, std::vector<Value>{weight},
              [](const StepValues& v) {
                const Value h = tanh(matmul(v.states[0], v.constants[0]) + v.sequences[0]);
                return StepResult{{h}, {h}};
              },
              {.reverse = reverse, .lengths = {}, .reset = {}})
      .outputs[0];
}

// Loops, products and elementwise nodes that read any values before them, and the gradients.
Network random_network(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  Network n;
  const Value first = n.graph->input("h", {DType::f32, {k_rows, k_units}});
  std::vector<Value> weights, values{n.graph->input("x", {DType::f32, {k_steps, k_rows, k_units}})};
  for (const char* name : {"a", "b", "c"}) weights.push_back(n.graph->input(name, {DType::f32, {k_units, k_units}}));
  for (std::size_t k = 4 + below(12); k > 0; --k) {
    const Value a = values[below(values.size())], b = values[below(values.size())], w = weights[below(weights.size())];
    switch (below(5)) {
      case 0: values.push_back(a * b); break;
      case 1: values.push_back(tanh(a) + b); break;
      case 2: values.push_back(linear(a, w)); break;
      default: values.push_back(loop(first, a, w, below(2) == 0));
    }
  }
  Value loss = mean(square(values.back()));
  for (std::size_t k = 1; k + 1 < values.size(); k += 2) loss = loss + mean(square(values[k]));
  n.graph->output("y", values.back());
  n.graph->output("loss", loss);
  std::size_t k = 0;
  for (const Value& d : differentiate(loss, std::vector<Value>{weights[0], weights[1], weights[2], values[0], first}))
    n.graph->output("d" + std::to_string(k++), d);
  give_inputs(n, {});
  return n;
}

int branch_of(const Fork& fork, int node) {
  for (std::size_t b = 0; b < fork.n_branches(); ++b)
    if (node >= fork.bounds[b] && node < fork.bounds[b + 1]) return static_cast<int>(b);
  return -1;
}

// Edges say what must come before what, by values and by memory; they go forward, so a path from one branch of a fork
// to another has such an edge. Returns the number of branches.
std::size_t check_apart(const Plan& plan) {
  std::size_t branches = 0;
  const auto edges = common::hazards_of(plan).edges;
  for (const Fork& fork : plan.forks) {
    branches += fork.n_branches();
    for (const auto& edge : edges) {
      const int from = branch_of(fork, edge.first), to = branch_of(fork, edge.second);
      CHECK_MESSAGE((from < 0 || to < 0 || from == to), "node ", edge.first, " before node ", edge.second);
    }
  }
  return branches;
}

void check_bits(const Network& n) {
  const TensorMap one = evaluate(*n.graph, *make_backend("cpu", {.threads = 1}), n.inputs);
  std::vector<std::string> schedules = testing::schedules_of("cpu");
  schedules.emplace_back();
  for (const std::string& schedule : schedules)
    for (const int threads : {2, 3, 4}) {
      CAPTURE(schedule);
      CAPTURE(threads);
      const auto backend = make_backend("cpu", testing::scheduled(threads, schedule));
      const TensorMap more = evaluate(*n.graph, *backend, n.inputs);
      for (const auto& result : one)
        CHECK_MESSAGE(std::ranges::equal(more.at(result.first).bytes(), result.second.bytes()), result.first);
    }
}

TEST_CASE("each layer with two directions forks, forward and backward") {
  const auto backend = make_backend("cpu", {.threads = 2});
  for (const std::string cell : {"rnn", "gru", "lstm"}) {
    CAPTURE(cell);
    CHECK(check_apart(*plan(*trained(cell, 1, true).graph, *backend)) == 4);
    CHECK(check_apart(*plan(*trained(cell, 3, true).graph, *backend)) == 12);
    CHECK(check_apart(*plan(*trained(cell, 3, false).graph, *backend)) == 0);
  }
}

TEST_CASE("a branch has the product before its loop and the weight gradients after it") {
  const auto p = plan(*trained("lstm", 1, true).graph, *make_backend("cpu", {.threads = 2}));
  REQUIRE(p->forks.size() == 2);
  const auto products = [&](const Fork& fork, std::size_t b) {
    return std::count_if(p->graph->nodes().begin() + fork.bounds[b], p->graph->nodes().begin() + fork.bounds[b + 1],
                         [](const Node& node) { return node.op == Op::matmul; });
  };
  for (const std::size_t b : {0, 1}) {
    CHECK(products(p->forks[0], b) == 1);
    CHECK(products(p->forks[1], b) == 2);
  }
}

TEST_CASE("one thread, one caller's thread and a plan without the pass have no forks, and need less memory") {
  const Network n = trained("lstm", 1, true);
  const auto two = make_backend("cpu", {.threads = 2});
  const auto forked = plan(*n.graph, *two);
  PlanOptions without, alone;
  without.without = {"branches"};
  alone.one_thread = true;
  for (const auto& p : {plan(*n.graph, *make_backend("cpu", {.threads = 1})), plan(*n.graph, *two, without),
                        plan(*n.graph, *two, alone)}) {
    CHECK(p->forks.empty());
    CHECK(p->arena_bytes < forked->arena_bytes);
  }
}

TEST_CASE("a plan that is over its memory limit with forks is made without them") {
  const Network n = trained("lstm", 1, true);
  const auto backend = make_backend("cpu", {.threads = 2});
  PlanOptions options;
  options.without = {"branches"};
  options.memory_limit = planned_bytes(*plan(*n.graph, *backend, options));
  options.without.clear();
  CHECK(plan(*n.graph, *backend, options)->forks.empty());
}

TEST_CASE("trained networks have the bits of one thread, whatever runs side by side") {
  for (const std::string cell : {"gru", "lstm"}) {
    CAPTURE(cell);
    check_bits(trained(cell, 2, true));
  }
}

TEST_CASE("the last node of a fork does not overwrite in place what another branch reads") {
  Network n;
  const auto input = [&](const char* name, const Shape& shape) { return n.graph->input(name, {DType::f32, shape}); };
  const Value first = input("h", {k_rows, k_units}), shared = tanh(input("x", {k_steps, k_rows, k_units}));
  const Value left = loop(first, shared, input("a", {k_units, k_units}), false);
  const Value right = loop(first, shared, input("b", {k_units, k_units}), true);
  n.graph->output("y", matmul(left, tanh(shared + right), {.a = false, .b = true}));
  give_inputs(n, {});
  const auto p = plan(*n.graph, *make_backend("cpu", {.threads = 2}));
  REQUIRE(p->forks.size() == 1);
  CHECK(p->graph->node(p->forks[0].bounds.back() - 1).op == Op::fused);
  CHECK(check_apart(*p) == 2);
  check_bits(n);
}

TEST_CASE("random networks of loops share no memory between branches and have the bits of one thread") {
  const auto backend = make_backend("cpu", {.threads = 2});
  std::size_t branches = 0;
  for (std::uint64_t seed = 0; seed < testing::setting("UNROLL_GRAPHS", 200); ++seed) {
    CAPTURE(seed);
    const Network n = random_network(seed);
    branches += check_apart(*plan(*n.graph, *backend));
    if (seed < 25) check_bits(n);
  }
  MESSAGE(branches << " branches");
  CHECK(branches > 100);
}

// The shared product is read by a product of one branch, and by the last node of the other, which could write over
// it.
TEST_CASE("a branch writes over nothing that another branch reads") {
  const auto backend = make_backend("cpu", {.threads = 2});
  Network n;
  const Value first = n.graph->input("h", {DType::f32, {k_rows, k_units}});
  const Value x = n.graph->input("x", {DType::f32, {k_steps, k_rows, k_units}});
  std::vector<Value> weights;
  for (const char* name : {"a", "b", "c"}) weights.push_back(n.graph->input(name, {DType::f32, {k_units, k_units}}));
  const Value shared = linear(x, weights[2]);
  n.graph->output("one", loop(first, linear(shared, weights[1]), weights[0], false));
  const Value other = loop(first, x, weights[1], false);
  n.graph->output("other", loop(first, shared + linear(other * 0.25, weights[0]), weights[1], true));
  give_inputs(n, {});
  const auto planned = plan(*n.graph, *backend);
  REQUIRE(planned->forks.size() == 1);
  CHECK(check_apart(*planned) == 2);
  check_bits(n);
}

// What the report says of each fork after so many runs.
std::vector<std::string> forks_after(int runs, const Network& n, Backend& backend) {
  Program program(*n.graph, backend);
  std::vector<std::unique_ptr<Buffer>> buffers;
  Bindings bindings;
  for (const NamedValue& input : program.plan().graph->inputs()) {
    buffers.push_back(backend.allocate(program.plan().graph->type(input.value).bytes()));
    backend.upload(*buffers.back(), 0, n.inputs.at(input.name).bytes());
    bindings.inputs.push_back(buffers.back().get());
  }
  for (const NamedValue& output : program.plan().graph->outputs()) {
    buffers.push_back(backend.allocate(program.plan().graph->type(output.value).bytes()));
    bindings.outputs.push_back(buffers.back().get());
  }
  for (int run = 0; run < runs; ++run) program.run(bindings);
  std::vector<std::string> forks;
  for (const ReportLine& line : program.executable().report())
    if (line.implementation.find("branches") != std::string::npos) forks.push_back(line.implementation);
  return forks;
}

TEST_CASE("timings choose between side by side and in turn, for later executables too") {
  const Network n = trained("lstm", 1, true, 64);
  std::vector<std::string> first, later;
  const auto follows = [](const std::string& next, const std::string& fork) {
    return fork.find(" ms") != std::string::npos && next == fork.substr(0, fork.find(';'));
  };
  // Other programs may disturb the first one so much that it is choosing again.
  for (int attempt = 0; attempt < 5; ++attempt) {
    Trace trace(1);  // with which no plan is tried on one thread instead
    const auto backend = make_backend("cpu", {.threads = 2, .trace = &trace});
    first = forks_after(40, n, *backend);
    later = forks_after(1, n, *backend);
    if (first.size() == 2 && std::ranges::equal(later, first, follows)) break;
  }
  REQUIRE(first.size() == 2);
  REQUIRE(later.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK_MESSAGE(follows(later[i], first[i]), first[i], " then ", later[i]);
}

}  // namespace
}  // namespace unroll
