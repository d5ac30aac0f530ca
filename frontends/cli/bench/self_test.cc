// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/bench/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>

#include "frontends/cli/bench/compare_model.h"
#include "frontends/config/run/job.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/train/compare.h"

namespace unroll::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* k_verifier = "reference";
constexpr const char* k_measured = "cpu";

constexpr double k_enough = 0.1;  // seconds of calls, of which the best counts

// Returns the best of several calls, in seconds.
template <class F>
double best_of(F call, double k_seconds = k_enough) {
  constexpr int k_fewest = 3;
  double best = 0, spent = 0;
  for (int n = 0; n < k_fewest || spent < k_seconds; ++n) {
    const auto start = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    spent += seconds;
    if (n == 1 || (n > 1 && seconds < best)) best = seconds;  // the first call warms up
  }
  return best;
}

// Returns the seconds of a run of the graph on arbitrary inputs.
double run_seconds(const Graph& graph, Backend& backend, double enough = k_enough) {
  Program program(graph, backend);
  std::vector<std::unique_ptr<Buffer>> buffers;
  Bindings bindings;
  const auto add = [&](const ValueId& value, std::vector<Buffer*>& to) {
    const Tensor zeros(graph.type(value));
    buffers.push_back(backend.allocate(zeros.bytes().size()));
    backend.upload(*buffers.back(), 0, zeros.bytes());
    to.push_back(buffers.back().get());
  };
  for (const NamedValue& input : graph.inputs()) add(input.value, bindings.inputs);
  for (const NamedValue& output : graph.outputs()) add(output.value, bindings.outputs);
  return best_of([&] {
    program.run(bindings);
    backend.wait();
  }, enough);
}

// Measures matrices of 1024 x 1024, or smaller ones if these take longer than a second.
double product_rate(Backend& backend) {
  constexpr std::int64_t k_least = 128, k_most = 1024;
  for (std::int64_t size = k_least;; size *= 2) {
    const Type type{DType::f32, {size, size}};
    Graph graph;
    graph.output("c", matmul(graph.input("a", type), graph.input("b", type)));
    const double flop = 2.0 * static_cast<double>(size * size * size);
    const double seconds = run_seconds(graph, backend, size < k_most ? 0 : k_enough);
    if (size == k_most || 8 * seconds > k_enough * 2) return flop / seconds;
  }
}

// Measures memory beyond all caches, or the largest buffer.
double stream_rate(Backend& backend) {
  std::size_t beyond = std::size_t{128} << 20;
  constexpr std::size_t k_most = std::size_t{512} << 20;
  for (const Cache& cache : data_caches()) beyond = std::max(beyond, std::min(k_most, 2 * cache.bytes));
  if (const std::size_t most = backend.describe().largest_buffer_range; most > 0) beyond = std::min(beyond, most);
  Graph graph;
  const Type type{DType::f32, {static_cast<std::int64_t>(beyond / sizeof(float))}};
  graph.output("sum", reduce_sum(graph.input("x", type), {0}));
  return static_cast<double>(beyond) / run_seconds(graph, backend);
}

// Returns the bytes per second that one core reads.
double read_rate(std::size_t bytes) {
  constexpr std::size_t k_least = std::size_t{1} << 24;  // bytes per call, enough for the clock's resolution
  constexpr std::size_t k_lanes = 8;
  const std::vector<std::uint64_t> data(bytes / sizeof(std::uint64_t), 1);
  const std::size_t n = data.size() / k_lanes * k_lanes, repeats = std::max<std::size_t>(k_least / bytes, 1);
  std::uint64_t sums[k_lanes] = {};
  const double seconds = best_of([&] {
    for (std::size_t repeat = 0; repeat < repeats; ++repeat)
      for (std::size_t i = 0; i < n; i += k_lanes)
        for (std::size_t lane = 0; lane < k_lanes; ++lane) sums[lane] ^= data[i + lane] + repeat;
  });
  volatile std::uint64_t kept = 0;  // keeps the compiler from removing the sums
  for (const std::uint64_t sum : sums) kept = kept + sum;
  return static_cast<double>(repeats * n * sizeof(std::uint64_t)) / seconds;
}

Report row_of(const std::string& name, double rate, const char* unit, bool as_json) {
  constexpr double k_giga = 1e9;
  Report row;
  row.add("name", name);
  if (as_json) return std::move(row.add("rate", rate / k_giga).add("unit", unit));
  return std::move(row.add("rate", fmt::format("{:.1f} {}", rate / k_giga, unit)));
}

}  // namespace

std::vector<Cache> data_caches() {
  std::vector<Cache> caches;
  for (int index = 0;; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    std::string level, type;
    std::size_t kib = 0;
    if (!(std::ifstream(folder + "level") >> level) || !(std::ifstream(folder + "type") >> type)) return caches;
    if (type != "Instruction" && std::ifstream(folder + "size") >> kib) caches.push_back({"L" + level, kib << 10});
  }
}

std::vector<BackendStatus> backends_of_machine() {
  constexpr const char* k_with_openblas = "cpu:openblas";
  std::vector<BackendStatus> statuses = list_backends();
  try {
    statuses.push_back({k_with_openblas, true, make_backend(k_with_openblas)->describe().device});
  } catch (const Error& error) {
    statuses.push_back({k_with_openblas, false, error.what()});
  }
  return statuses;
}

SelfTest self_test(bool as_json) {
  std::vector<std::unique_ptr<Backend>> owned;
  std::vector<Backend*> backends;
  owned.push_back(make_backend(k_verifier));
  for (const BackendStatus& status : backends_of_machine())
    if (status.available && status.name != k_verifier) owned.push_back(open_backend(status.name, 0));
  for (const auto& backend : owned) backends.push_back(backend.get());
  const auto task = stack_task({.cell = "lstm", .hidden = 16}, {.steps = 8, .batch = 4, .input = 8});
  CompareOptions how;
  how.gradients = true;
  how.timed_runs = 0;
  how.nodes = false;
  const Comparison compared = compare_task(*task, backends, *backends.front(), how);
  SelfTest test;
  for (std::size_t k = 1; k < compared.backends.size(); ++k) {
    const BackendResult& r = compared.backends[k];
    double most = 0;
    for (const ResultCheck& c : r.results) most = std::max(most, c.achieved == 0 ? 0 : c.achieved / c.allowed);
    Report row;
    row.add("backend", r.backend);
    const std::string verdict = fmt::format("agrees, {:.1f} % of the allowed error", 100 * most);
    if (as_json) row.add("agrees", r.difference.empty()).add("of_allowed", most).add("difference", r.difference);
    else row.add("agrees", r.difference.empty() ? verdict : "differs");
    test.backends.push_back(std::move(row));
    if (test.failed.empty() && !r.difference.empty()) test.failed = r.backend + ": " + r.difference;
  }
  return test;
}

Roofline measure_roofline(Backend& backend) { return {product_rate(backend), stream_rate(backend)}; }

ReportList roofline(const std::vector<Cache>& caches, bool as_json) {
  constexpr std::size_t k_memory = std::size_t{128} << 20, k_most = std::size_t{512} << 20;
  const auto backend = make_backend(k_measured);
  ReportList rows{row_of("product of 1024 x 1024 matrices, all threads", product_rate(*backend), "GFLOP/s", as_json)};
  std::size_t beyond = k_memory;
  for (const Cache& cache : caches) {
    if (cache.bytes < k_most)
      rows.push_back(row_of("reading " + cache.name + ", one core", read_rate(cache.bytes / 2), "GB/s", as_json));
    beyond = std::max(beyond, 2 * cache.bytes);
  }
  if (beyond <= k_most) rows.push_back(row_of("reading memory, one core", read_rate(beyond), "GB/s", as_json));
  return rows;
}

}  // namespace unroll::cli
