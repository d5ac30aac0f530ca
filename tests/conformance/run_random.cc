// SPDX-License-Identifier: Apache-2.0
// Random graphs and random scan bodies with their gradients: a backend (the first argument; else every one) in f32
// against the reference, bit-equal when it runs again and for 1 to 4 threads in any schedule, and within tolerance with
// passes left out and in bf16 and f16; the pipeline on the reference in f64
// against no pipeline at all. UNROLL_SEED=n repeats a run, UNROLL_CASE=k one graph of it, UNROLL_STEPS=n cuts scan
// bodies off after n steps of growth, UNROLL_GRAPHS=n and UNROLL_SCANS=n change how many. All of the scan bodies:
//   UNROLL_SCANS=10000 run_random --test-case="random scan*"
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "core/train/verify/rounding.h"
#include "tests/conformance/random_graphs.h"
#include "tests/support/backend_options.h"
#include "tests/support/backends.h"
#include "tests/support/finite_difference.h"
#include "tests/support/setting.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// How many of each kind a backend gets: most goes to the one whose plans have the most forms; fewer to vulkan, because
// lavapipe compiles shaders slowly. Another backend gets as many as the last row, all of
// them together as many as the first.
struct Amount {
  std::string_view backend;
  std::uint64_t graphs, scans;
};
constexpr int k_most_threads = 4;
constexpr Amount k_amounts[] = {{"cpu", 1000, 1000}, {k_late, 60, 60}, {"vulkan", 100, 100}, {"", 200, 200}};
Amount amount() {
  const std::vector<std::string> names = verified_backends();
  if (names.size() != 1) return k_amounts[0];
  for (const Amount& a : k_amounts)
    if (a.backend == names[0]) return a;
  return *std::rbegin(k_amounts);
}
constexpr double k_largest = 1e6;
// Where rounding noise, or f32 instead of f64, changes a result by more than this part of it, the graph is about its
// condition or about a branch, not about the backend.
constexpr double k_ill = 1e-3;
// A backend may be this many times further off than one sample of rounding noise and the plain f32 loops.
constexpr double k_slack = 8;
constexpr double k_f64_per_f32 = 0x1p-29;
// In 16 bits: the same with their unit roundoff. A branch or a sum that differs by more says nothing.
constexpr double k_ill_half = 0.05, k_floor_half = 8;
constexpr double k_floor_f32 = 64 * 0x1p-24, k_floor_f64 = 4096 * 0x1p-53;

// Relative L2 distance, per result; results below 1e-2 are measured against that.
double distance(const Tensor& a, const Tensor& b) {
  if (!is_float(b.dtype())) {
    for (std::int64_t i = 0; i < b.elements(); ++i)
      if (a.at(i) != b.at(i)) return HUGE_VAL;
    return 0;
  }
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < b.elements(); ++i) {
    const double d = a.at(i) - b.at(i);
    error += d * d;
    norm += b.at(i) * b.at(i);
  }
  const double floor = 1e-2 * std::sqrt(static_cast<double>(b.elements()));
  return error == 0 ? 0 : std::sqrt(error) / std::max(std::sqrt(norm), floor);
}

struct Distance {
  double worst = 0;
  std::string name;
};
Distance distance(const TensorMap& a, const TensorMap& b) {
  Distance result;
  for (const auto& [name, wanted] : b) {
    const double d = distance(a.at(name), wanted);
    if (!(d <= result.worst)) result = {d == d ? d : HUGE_VAL, name};
  }
  return result;
}

bool tame(const TensorMap& results) {
  for (const auto& [name, t] : results)
    for (std::int64_t i = 0; i < t.elements(); ++i)
      if (is_float(t.dtype()) && !(std::abs(t.at(i)) <= k_largest)) return false;
  return true;
}

// A device has no threads of the host: all graphs run on the one that was opened first, with the kernels that earlier
// graphs have compiled.
using Devices = std::map<std::string, std::shared_ptr<Backend>>;
Devices& devices() {
  static Devices all;  // run_all closes them: a driver may be gone when the program ends
  return all;
}
std::shared_ptr<Backend> opened(const std::string& name, int threads, const std::string& schedule = "") {
  if (const auto device = devices().find(name); device != devices().end()) return device->second;
  if (std::shared_ptr<Backend> one = open_tested(name, {.threads = k_most_threads}); one->describe().threads == 1)
    return devices()[name] = one;
  return open_tested(name, scheduled(threads, schedule));
}

using Make = RandomGraph (*)(std::uint64_t seed, DType dtype);
RandomGraph cells(std::uint64_t seed, DType dtype) {
  static const auto most_steps = static_cast<std::int64_t>(setting("UNROLL_STEPS", 1000));
  return random_scans(seed, dtype, most_steps);
}

struct Counts {
  int verified = 0, with_scan = 0, rejected = 0, unsupported = 0, in_half = 0;
  double tightest = 0;
  std::set<Op> ops;
};

class Trial {
 public:
  Trial(Make make, std::uint64_t seed, Counts& counts) : make_(make), seed_(seed), counts_(counts) {}

  void run() {
    const RandomGraph random = make_(seed_, DType::f64);
    INFO(print_graph(*make_(seed_, DType::f32).graph));
    const std::shared_ptr<Graph> wide = random.graph;
    append_gradient(*wide, 1);
    narrow_ = make_(seed_, DType::f32).graph;
    append_gradient(*narrow_, 1);
    inputs_ = make_inputs(*wide, random.ranges, std::to_string(seed_));
    truth_ = run_truth(*wide, inputs_);
    if (tame(truth_)) ill_ = condition(*wide);
    check_pipeline(*wide);
    if (!allow()) {
      ++counts_.rejected;
      return;
    }
    ++counts_.verified;
    const auto ops = ops_of(*narrow_);
    counts_.with_scan += std::find(ops.begin(), ops.end(), Op::scan) != ops.end();
    counts_.ops.insert(ops.begin(), ops.end());
    for (const std::string& name : verified_backends()) {
      const auto passed = ops_of(*lower(*narrow_, *opened(name, 1)));
      counts_.ops.insert(passed.begin(), passed.end());  // some ops are made by passes
      check_backend(name);
    }
    check_halves(seed_ % 2 == 0 ? Precision::bf16 : Precision::f16);
  }

 private:
  // What rounding noise changes, the worst of some samples: in a single one errors may cancel.
  double condition(const Graph& wide) const {
    constexpr std::uint64_t k_samples = 3;
    double worst = 0;
    for (std::uint64_t k = 0; k < k_samples; ++k) {
      const auto noisy = with_rounding_noise(*expanded(wide), mixed(seed_, k));
      worst = std::max(worst, distance(run_truth(*noisy, inputs_), truth_).worst);
    }
    return worst;
  }

  // Passes and memory plan change nothing that matters, whatever the numbers are.
  void check_pipeline(const Graph& wide) {
    if (!(ill_ < k_ill)) return;
    const auto reference = make_backend("reference");
    const Distance d =
        distance(evaluate(wide, *reference, inputs_, {.without = {}, .donate = {}, .verify_each = true}), truth_);
    CAPTURE(d.name);
    CHECK(d.worst <= k_slack * ill_ * k_f64_per_f32 + k_floor_f64);
  }

  // How far off a backend in f32 may be; false when nothing can be said.
  bool allow() {
    if (!(ill_ < k_ill)) return false;
    inputs32_ = in_dtype(inputs_, DType::f32);
    const Distance plain = distance(run_truth(*narrow_, inputs32_), truth_);
    allowed_ = k_slack * std::max(ill_, plain.worst) + k_floor_f32;
    return plain.worst < k_ill;
  }

  void check_backend(const std::string& name) {
    CAPTURE(name);
    const TensorMap one = run_on(name, 1, {});
    if (one.empty()) return;
    const Distance d = distance(one, truth_);
    counts_.tightest = std::max(counts_.tightest, d.worst / allowed_);
    CHECK_MESSAGE(d.worst <= allowed_, d.name, " is off by ", d.worst, ", allowed is ", allowed_);
    std::vector<std::string> schedules = tested_schedules(name);
    schedules.emplace_back();
    // Only as many threads as make a difference: a device has none of the host's.
    const int most = opened(name, k_most_threads)->describe().threads;
    for (int threads = 2; threads <= most; ++threads) {  // each with another schedule, others in the next trial
      const std::string& schedule = schedules[(seed_ + static_cast<std::uint64_t>(threads)) % schedules.size()];
      CAPTURE(threads);
      CAPTURE(schedule);
      const TensorMap more = run_on(name, threads, {}, schedule);
      for (const auto& result : one) CHECK_MESSAGE(same_bits(more.at(result.first), result.second), result.first);
    }
    // One pass left out, another one in every trial.
    const auto passes = pass_names();
    const std::string left_out = passes[static_cast<std::size_t>(seed_ % passes.size())];
    CAPTURE(left_out);
    const Distance without = distance(run_on(name, 2, {left_out}), truth_);
    CHECK_MESSAGE(without.worst <= allowed_, without.name, " is off by ", without.worst, ", allowed is ", allowed_);
  }

  // What noise of the format changes is what noise of f32 changes, by the ratio of the two, unless the reference shows
  // that it is more.
  void check_halves(Precision precision) {
    const double u = precision == Precision::bf16 ? 0x1p-8 : 0x1p-11;
    const auto reference = make_backend("reference");
    PlanOptions options;
    options.precision = precision;
    const Distance plain = distance(evaluate(*narrow_, *reference, inputs32_, options), truth_);
    const double noise = std::max(ill_ * u * 0x1p24, plain.worst);
    if (!(noise < k_ill_half)) return;
    ++counts_.in_half;
    const double allowed = k_slack * noise + k_floor_half * u;
    CAPTURE(precision_name(precision));
    for (const std::string& name : verified_backends()) {
      CAPTURE(name);
      const TensorMap one = run_on(name, 1, {}, "", precision), two = run_on(name, 2, {}, "", precision);
      if (one.empty()) continue;
      const Distance d = distance(one, truth_);
      CHECK_MESSAGE(d.worst <= allowed, d.name, " is off by ", d.worst, ", allowed is ", allowed);
      for (const auto& result : one) CHECK_MESSAGE(same_bits(two.at(result.first), result.second), result.first);
    }
  }

  TensorMap run_on(const std::string& name, int threads, std::vector<std::string> without,
                   const std::string& schedule = "", Precision precision = Precision::f32) {
    const auto backend = opened(name, threads, schedule);
    try {
      PlanOptions options;
      options.without = std::move(without);
      options.precision = precision;
      Program program(*narrow_, *backend, options);
      TensorMap results = program.run(inputs32_);
      if (threads == 1)
        for (const auto& result : program.run(inputs32_))
          CHECK_MESSAGE(same_bits(result.second, results.at(result.first)), "another run changes ", result.first);
      return results;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      ++counts_.unsupported;
      return {};
    }
  }

  Make make_;
  std::uint64_t seed_;
  Counts& counts_;
  std::shared_ptr<Graph> narrow_;
  TensorMap inputs_, inputs32_, truth_;
  double ill_ = HUGE_VAL;  // what rounding noise changes
  double allowed_ = 0;
};

// Runs n graphs, or the one that UNROLL_CASE asks for.
Counts run_all(const char* what, Make make, std::uint64_t n) {
  const std::uint64_t seed = setting("UNROLL_SEED", std::random_device()()), only = setting("UNROLL_CASE", n);
  std::printf("%s: UNROLL_SEED=%llu\n", what, static_cast<unsigned long long>(seed));
  Counts counts;
  for (std::uint64_t k = only < n ? only : 0; k < (only < n ? only + 1 : n); ++k) {
    const std::string replay = "UNROLL_SEED=" + std::to_string(seed) + " UNROLL_CASE=" + std::to_string(k);
    CAPTURE(replay);
    CHECK_NOTHROW(Trial(make, mixed(seed, k), counts).run());
  }
  devices().clear();
  std::printf(
      "%d graphs verified, %d of them with a scan, %d in bf16 or f16 too; %d rejected as ill-conditioned or unbounded; "
      "%d runs unsupported; at most %.1f %% of the allowed error\n",
      counts.verified, counts.with_scan, counts.in_half, counts.rejected, counts.unsupported, 100 * counts.tightest);
  CHECK(counts.unsupported == 0);
  if (only == n) CHECK(static_cast<std::uint64_t>(counts.rejected) <= n / 2);
  return counts;
}

}  // namespace

TEST_CASE("random graphs and their gradients agree everywhere") {
  const std::uint64_t n = setting("UNROLL_GRAPHS", amount().graphs);
  const Counts counts = run_all("random graphs", random_graph, n);
  if (std::getenv("UNROLL_CASE") || n < k_amounts[0].graphs) return;
  for (const OpInfo& info : op_table()) {
    CAPTURE(std::string(info.name));
    if (info.tier == OpTier::primitive) CHECK(counts.ops.count(info.op) == 1);
  }
}

TEST_CASE("random scan bodies and their gradients agree everywhere") {
  run_all("random scan bodies", cells, setting("UNROLL_SCANS", amount().scans));
}
