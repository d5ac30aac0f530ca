// SPDX-License-Identifier: Apache-2.0
// How the steps of scans are shared out: where barriers stay, what may be asked for, that timings choose; and
// denormals.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "backends/cpu/cost/schedule.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/program/barriers.h"
#include "backends/cpu/program/columns.h"
#include "backends/cpu/threads/thread_pool.h"
#include "tests/support/backend_options.h"
#include "tests/support/gradient_outputs.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll {
namespace {

using cpu::Access;
using cpu::Owner;

constexpr Owner k_own{8, 0, 4, false};

// A state of 8 units, read by everyone or by owners.
Access state_in(Owner owner) { return {{cpu::k_first_input, 0}, 64, owner, false}; }
Access state_out(Owner owner) { return {{cpu::k_first_input + 1, 0}, 64, owner, true}; }
Access scratch_at(std::size_t offset, Owner owner, bool writes) { return {{cpu::k_arena, offset}, 64, owner, writes}; }
const cpu::Loop k_one_state{1, 1, {0}, {false}};

using Calls = std::vector<std::vector<Access>>;
using Waits = std::vector<bool>;

TEST_CASE("a product of the whole state and a group on its own columns need one barrier a step") {
  const Calls calls{{state_in({}), scratch_at(0, k_own, true)}, {scratch_at(0, k_own, false), state_out(k_own)}};
  CHECK(cpu::find_barriers(calls, &k_one_state) == Waits{false, true});
}

TEST_CASE("a group that a product of all its columns follows needs one barrier, between the two") {
  const Calls calls{{state_in(k_own), scratch_at(0, k_own, true)}, {scratch_at(0, {}, false), state_out(k_own)}};
  const cpu::Loop loop{1, 1, {0}, {false}};
  // the scratch is one for all steps: its next writer must wait for readers too
  CHECK(cpu::find_barriers(calls, &loop) == Waits{true, true});
  // as a stack with memory of its own for each step it need not
  Calls stacked = calls;
  stacked[0][1].ref = stacked[1][0].ref = {cpu::k_first_input + 2, 0};
  const cpu::Loop kept{1, 1, {0, 1}, {false, true}};
  CHECK(cpu::find_barriers(stacked, &kept) == Waits{true, false});
}

TEST_CASE("a step that stays in its own columns needs no barrier, and one with other owners does") {
  const Calls own{{state_in(k_own), state_out(k_own)}};
  CHECK(cpu::find_barriers(own, &k_one_state) == Waits{false});
  const Owner other{4, 0, 4, false};
  const Calls mixed{{state_in(k_own), scratch_at(0, k_own, true)}, {scratch_at(32, other, false), state_out(k_own)}};
  CHECK(cpu::find_barriers(mixed, &k_one_state) == Waits{true, true});
}

TEST_CASE("two states that become one value are known to be one memory") {
  const Access second_in{{cpu::k_first_input + 1, 0}, 64, {}, false}, out{{cpu::k_first_input + 2, 0}, 64, k_own, true};
  const Calls calls{{second_in, out}};
  const cpu::Loop loop{2, 2, {0, 0}, {false, false}};
  CHECK(cpu::find_barriers(calls, &loop) == Waits{true});
}

TEST_CASE("parts own all units once, and nearly equal numbers of them") {
  for (const int parts : {1, 2, 3, 4, 7})
    for (std::int64_t units = 0; units < 300; ++units) {
      std::int64_t next = 0, most = 0;
      for (int part = 0; part < parts; ++part) {
        const cpu::Range own = cpu::units_of(part, parts, units);
        CHECK(own.begin == next);
        next = own.end;
        most = std::max(most, own.end - own.begin);
      }
      CHECK(next == units);
      CHECK(most * parts * 16 <= std::max<std::int64_t>(units, 1) * 17 + 16 * parts);
    }
}

// ---- whole plans

struct Trained {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  TensorMap inputs;
};
Trained trained(const std::string& cell, std::int64_t hidden, bool bidirectional = false) {
  Trained t;
  Scope scope(*t.graph);
  const Value x = t.graph->input("x", {DType::f32, {5, 6, 8}});
  const RecurrentModelOptions options{.cell = cell, .hidden = hidden, .bidirectional = bidirectional};
  const Value loss = mean(square(recurrent_model(scope, x, options).y));
  testing::output_gradients(scope, loss);
  t.inputs = initialize(scope.parameters(), 1);
  t.inputs.merge(initialize(std::vector<ParameterSpec>{{"x", x.type(), Initializer::uniform(1)}}, 2));
  return t;
}

// Buffers for the inputs and outputs of a planned graph.
struct Bound {
  std::vector<std::unique_ptr<Buffer>> buffers;
  Bindings bindings;
  Bound(const Graph& graph, Backend& backend, const TensorMap& inputs) {
    for (const NamedValue& input : graph.inputs()) {
      buffers.push_back(backend.allocate(graph.type(input.value).bytes()));
      backend.upload(*buffers.back(), 0, inputs.at(input.name).bytes());
      bindings.inputs.push_back(buffers.back().get());
    }
    for (const NamedValue& output : graph.outputs()) {
      buffers.push_back(backend.allocate(graph.type(output.value).bytes()));
      bindings.outputs.push_back(buffers.back().get());
    }
  }
};

// What the report says of the scans.
std::vector<std::string> scans_in(const Executable& executable) {
  std::vector<std::string> scans;
  for (const ReportLine& line : executable.report())
    if (line.step.find("scan") != std::string::npos) scans.push_back(line.implementation);
  return scans;
}
// After so many runs.
std::vector<std::string> scans_of(const Trained& t, Backend& backend, int runs) {
  Program program(*t.graph, backend);
  const Bound bound(*program.plan().graph, backend, t.inputs);
  for (int run = 0; run < runs; ++run) program.run(bound.bindings);
  return scans_in(program.executable());
}
bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TEST_CASE("by columns the steps of gated cells have one barrier, forward and backward") {
  const auto backend = make_backend("cpu", testing::scheduled(2, "columns"));
  for (const std::string cell : {"lstm", "gru", "rnn"}) {
    CAPTURE(cell);
    const auto scans = scans_of(trained(cell, 33), *backend, 1);
    REQUIRE(scans.size() == 2);
    for (const std::string& scan : scans) CHECK_MESSAGE(says(scan, "by columns, 1 barrier a step"), scan);
  }
}

TEST_CASE("the way with the least time of three runs is chosen, runs that do not count apart") {
  cpu::TimedChoice choice(3);
  const double least[] = {5, 2, 9};
  int runs = 0;
  bool made = choice.add_run(0.1, /*counts=*/false);  // of the first way, which is taken again
  CHECK(choice.active() == 0);
  for (; !made && runs < 100; ++runs) {
    REQUIRE(choice.open());
    made = choice.add_run(least[choice.active()] + (runs < 3 ? 10 : 0), true);  // the first round is slow
  }
  CHECK(runs == 8);  // two of the third way, which has lost by then
  CHECK_FALSE(choice.open());
  CHECK(choice.active() == 1);
  CHECK(choice.ms(2) == 9);
  CHECK_FALSE(cpu::TimedChoice(1).open());
}

TEST_CASE("what is clearly slower is tried less often, when runs are long") {
  const auto runs_of = [](bool again, const std::vector<double>& ms) {
    cpu::TimedChoice choice(ms.size(), again);
    std::vector<int> runs(ms.size(), 0);
    for (bool made = false; !made;) {
      const std::size_t way = choice.active();
      ++runs[way];
      REQUIRE(runs[way] < 100);
      made = choice.add_run(ms[way], true);
    }
    CHECK(choice.active() == 0);
    return runs;
  };
  using Runs = std::vector<int>;
  CHECK(runs_of(false, {30, 60, 34}) == Runs{2, 2, 2});
  CHECK(runs_of(false, {10, 11, 16}) == Runs{3, 3, 3});
  CHECK(runs_of(false, {1, 1.5, 2}) == Runs{3, 3, 3});  // another program may have taken all of the difference
  CHECK(runs_of(true, {250, 400}) == Runs{2, 2});  // a warm-up each; one thread for a whole update, say
  CHECK(runs_of(true, {250, 300}) == Runs{3, 3});
}

TEST_CASE("a choice that is made again goes by the mean time of warm runs") {
  cpu::TimedChoice choice(2, /*again=*/true);
  int runs = 0;
  for (bool made = false; !made && runs < 1000; ++runs) {
    REQUIRE(choice.open());
    // The first way is the fastest at times: every fourth of its runs is disturbed.
    const double ms = choice.active() == 0 ? (runs % 4 == 0 ? 20 : 1) : 2;
    made = choice.add_run(runs < 2 ? 100 : ms, true);  // the first run of each is a warm-up
  }
  CHECK(choice.active() == 1);
  CHECK(choice.ms(1) == 2);
}

TEST_CASE("a choice is watched: made again soon when its time changes, late when it does not") {
  const cpu::RetryLimits limits;
  const auto runs_until = [&](double expected, double cost, double ms) {
    cpu::ChoiceWatch watch;
    watch.restart(expected, cost);
    int runs = 1;
    while (!watch.add_run(ms, limits) && runs < 1'000'000) ++runs;
    return runs;
  };
  CHECK(runs_until(1, 1, 1) == 2008);     // 2 s, in windows of 8 runs
  CHECK(runs_until(1, 100, 1) == 20008);  // 200 times the cost
  CHECK(runs_until(1, 1, 4) == 8);        // 24 ms were lost
  CHECK(runs_until(1, 100, 4) == 136);    // 4 times the cost
  CHECK(runs_until(8, 1, 2) == 56);       // faster than expected: 100 ms
  CHECK(runs_until(0, 0, 4) == 504);      // the first window says what is expected
}

constexpr cpu::RetryLimits k_retry_always{
    .lost = 0, .lost_ms = 0, .soon = 0, .soon_ms = 0, .late = 0, .late_ms = 0, .window_ms = 0};

TEST_CASE("a choice that is made again, in any run, changes no bit") {
  const auto host = make_backend("cpu", {.threads = 2});
  for (const bool bidirectional : {false, true})
    for (const double alone_ns : {0.0, 1.0}) {  // schedules of loops and branches alone, and one thread too
      CAPTURE(bidirectional);
      CAPTURE(alone_ns);
      const Trained t = trained(bidirectional ? "gru" : "lstm", 24, bidirectional);
      const auto made = plan(*t.graph, *host);
      CHECK(made->forks.empty() != bidirectional);
      cpu::ThreadPool pool(3);
      cpu::BackendState state;
      state.retry = k_retry_always;  // after every eight runs
      cpu::ProgramExecutable<cpu::ThreadPool> executable(made, pool, state, {pool.size(), alone_ns});
      const Bound bound(*made->graph, *host, t.inputs);
      const Bindings& bindings = bound.bindings;
      const TensorMap one = evaluate(*t.graph, *make_backend("cpu", {.threads = 1}), t.inputs);
      std::size_t least = executable.workspace_bytes();
      bool tried_again = false;
      for (int run = 0; run < 300; ++run) {
        executable.run(bindings);
        tried_again = tried_again || executable.workspace_bytes() > least;  // other ways are compiled
        least = std::min(least, executable.workspace_bytes());
        for (std::size_t k = 0; k < bindings.outputs.size(); ++k) {
          const Tensor& wanted = one.at(made->graph->outputs()[k].name);
          std::vector<std::byte> got(wanted.bytes().size());
          host->download(*bindings.outputs[k], 0, got);
          REQUIRE(std::ranges::equal(got, wanted.bytes()));
        }
      }
      CHECK(tried_again);
    }
}

TEST_CASE("one thread is tried at once where several gain little, and later where their time changes") {
  const auto host = make_backend("cpu", {.threads = 2});
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {64, 64}});
  graph.output("y", matmul(x, x));  // no loop that has a choice of its own
  const auto made = plan(graph, *host);
  const Bound bound(*made->graph, *host, {{"x", Tensor::filled({DType::f32, {64, 64}}, 0.5)}});
  struct Row {
    double alone_ns;
    cpu::RetryLimits retry;
    bool tried;
  };
  const cpu::RetryLimits never{.window_ms = 1e12};
  for (const Row& row : {Row{1, never, true}, Row{1e12, never, false}, Row{1e12, k_retry_always, true},
                         Row{0, k_retry_always, false}}) {
    CAPTURE(row.alone_ns);
    cpu::ThreadPool pool(2);
    cpu::BackendState state;
    state.retry = row.retry;
    cpu::ProgramExecutable<cpu::ThreadPool> executable(made, pool, state, {pool.size(), row.alone_ns});
    const std::size_t first = executable.workspace_bytes();
    bool tried = false;
    // The first check needs 8 ms of runs.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    for (int run = 0; !tried && (run < 100 || std::chrono::steady_clock::now() < end); ++run) {
      executable.run(bound.bindings);
      tried = executable.workspace_bytes() > first;
    }
    CHECK(tried == row.tried);
    CHECK((executable.settled() || tried));
  }
}

TEST_CASE("a schedule that is asked for is used, and an unknown one is refused") {
  const std::vector<std::string> schedules = testing::schedules_of("cpu");
  CHECK(schedules.size() == 5);
  for (const std::string& schedule : schedules) {
    const auto backend = make_backend("cpu", testing::scheduled(2, schedule));
    for (const std::string& scan : scans_of(trained("lstm", 16), *backend, 1))  // which has nothing beside it
      CHECK_MESSAGE(says(scan, "by " + (schedule == "side_by_side" ? "calls" : schedule)), scan);
  }
  CHECK_THROWS_AS(make_backend("cpu", testing::scheduled(2, "diagonals")), Error);
}

TEST_CASE("a product without columns runs in every schedule") {
  auto body = std::make_shared<Graph>();
  const Value h = body->input("h", {DType::f32, {4, 3}}), w = body->input("w", {DType::f32, {3, 0}});
  body->output("next", tanh(h + reduce_sum(matmul(h, w), {1}, true)));
  Graph g;
  const Value inputs[] = {g.input("h", {DType::f32, {4, 3}}), g.input("w", {DType::f32, {3, 0}})};
  const Attributes attributes{{"steps", std::int64_t{2}}, {"states", std::int64_t{1}}, {"sequences", std::int64_t{0}},
                              {"lengths", false}, {"reset", false}, {"reverse", false}};
  const auto outputs = g.append(Op::scan, inputs, attributes, body);
  g.output("h", outputs[0]);
  for (const std::string& schedule : testing::schedules_of("cpu"))
    CHECK_NOTHROW(Program(g, *make_backend("cpu", testing::scheduled(2, schedule))));
}

TEST_CASE("a cell with layer norms runs by rows too: its fused reductions are blocks of a part's own rows") {
  const auto backend = make_backend("cpu", testing::scheduled(2, "rows"));
  for (const std::string cell : {"lstm", "lnlstm"}) {
    const auto scans = scans_of(trained(cell, 64), *backend, 1);
    const auto by_rows = std::count_if(scans.begin(), scans.end(), [](const auto& s) { return says(s, "by rows"); });
    CHECK_MESSAGE(by_rows == 2, cell);  // forward and backward
  }
}

TEST_CASE("timings of the first runs choose a schedule, for later executables too") {
  const auto host = make_backend("cpu", {.threads = 2});
  const Trained t = trained("lstm", 24);
  const auto made = plan(*t.graph, *host);
  const Bound bound(*made->graph, *host, t.inputs);
  cpu::ThreadPool pool(2);
  cpu::BackendState state;
  cpu::ProgramExecutable<cpu::ThreadPool> executable(made, pool, state, {pool.size()});
  for (int run = 0; run < 20; ++run) executable.run(bound.bindings);
  const auto first = scans_in(executable);
  const auto second = scans_in(cpu::ProgramExecutable<cpu::ThreadPool>(made, pool, state, {pool.size()}));
  REQUIRE(first.size() == 2);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK_MESSAGE(says(first[i], " ms ("), first[i]);
    CHECK_MESSAGE(!says(second[i], " ms ("), second[i]);
    const auto by = first[i].find("by ");
    REQUIRE(by != std::string::npos);
    CHECK_MESSAGE(says(second[i], first[i].substr(by, first[i].find(',', by) - by)), second[i]);
  }
}

TEST_CASE("a group of a product that is an output too is read from there: the product's memory is another's by then") {
  constexpr std::int64_t k_steps = 3, k_rows = 5, k_units = 2;
  Graph graph;
  const Type state{DType::f32, {k_rows, k_units}};
  const Value first = graph.input("h", state), weight = graph.input("w", {DType::f32, {3 * k_units, k_units}});
  ScanOptions loop;
  loop.steps = k_steps;
  const auto outputs = scan(
      std::vector<Value>{first}, std::vector<Value>{}, std::vector<Value>{weight},
      [](const StepValues& v) {
        const Value group = slice(matmul(v.states[0] * 0.75, v.constants[0], {.b = true}), 1, k_units, k_units);
        return StepResult{{group / (reduce_sum(abs(group), {1}, true) + 1.0)}, {group}};
      },
      loop);
  graph.output("y", outputs.outputs[0]);
  graph.output("last", outputs.states[0]);
  const TensorMap inputs = initialize(std::vector<ParameterSpec>{{"h", state, Initializer::uniform(1)},
                                                                 {"w", weight.type(), Initializer::uniform(1)}}, 1);
  const TensorMap one = evaluate(graph, *make_backend("cpu", {.threads = 1}), inputs);
  const std::vector<std::string> schedules = testing::schedules_of("cpu");
  for (const std::string& schedule : schedules)
    for (const int threads : {2, 3, 4}) {
      CAPTURE(schedule);
      CAPTURE(threads);
      const TensorMap more = evaluate(graph, *make_backend("cpu", testing::scheduled(threads, schedule)), inputs);
      for (const auto& result : one)
        CHECK_MESSAGE(std::ranges::equal(more.at(result.first).bytes(), result.second.bytes()), result.first);
    }
}

// ---- denormal numbers

TEST_CASE("denormal numbers are zero while a scan runs, in every thread, and stay as they were outside of it") {
  constexpr std::int64_t k_steps = 3, k_rows = 8, k_width = 64;
  constexpr float k_least = 0x1p-126f;  // half of it is denormal
  Graph graph;
  const Type state{DType::f32, {k_rows, k_width}};
  const Value first = graph.input("h", state);
  const Value sequence = graph.input("x", {DType::f32, {k_steps, k_rows, k_width}});
  const auto outputs = scan(std::vector<Value>{first}, std::vector<Value>{sequence}, {}, [](const StepValues& v) {
    return StepResult{{v.states[0] * 0.5 + v.sequences[0]}, {}};
  });
  graph.output("last", outputs.states[0]);
  graph.output("outside", first * 0.5);
  TensorMap inputs;
  inputs.emplace("h", Tensor::from(state.shape, std::vector<float>(k_rows * k_width, k_least)));
  inputs.emplace("x", Tensor(sequence.type()));
  std::vector<std::string> schedules = testing::schedules_of("cpu");
  for (const std::string& schedule : schedules) {
    CAPTURE(schedule);
    const TensorMap results = evaluate(graph, *make_backend("cpu", testing::scheduled(2, schedule)), inputs);
    int flushed = 0, kept = 0;
    for (std::int64_t i = 0; i < k_rows * k_width; ++i) {
      flushed += results.at("last").at(i) == 0;
      kept += results.at("outside").at(i) > 0;
    }
    CHECK(flushed == k_rows * k_width);
    CHECK(kept == k_rows * k_width);
    volatile float tiny = k_least;
    CHECK(tiny * 0.5f > 0);
  }
}

}  // namespace
}  // namespace unroll
