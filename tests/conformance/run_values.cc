// SPDX-License-Identifier: Apache-2.0
// Values: every case and its gradient on a backend (the first argument; else every one) in each of its dtypes, against
// the reference in f64, within the tolerance of its rule, with the same bits when it runs again, and for 1 to 4 threads
// and every schedule. UNROLL_POOLS=n tries n of these pools on each case, others on the next. UNROLL_CASES=n verifies
// every n-th case and the first of each op, UNROLL_NAMES=text only the cases that have it in their names,
// UNROLL_OPS=matmul,scan those that have one of these ops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "tests/support/backend_options.h"
#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"
#include "tests/support/setting.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr int k_most_threads = 4;
// Gradients sum over other axes than values do; none of the cases sums more numbers than this.
constexpr int k_gradient_depth = 1024;

// The f64 results of a case (order 0) or its gradient (order 1) on numbers that are exact in f32, and the magnitudes
// for its error bound.
struct Truth {
  TensorMap inputs, results, magnitudes;
};
Truth truth_of(const Case& c, int order = 0) {
  const auto graph = gradient_graph(c, DType::f64, order);
  Truth t;
  t.inputs = make_inputs(*graph, c.ranges, c.name);
  t.results = run_truth(*graph, t.inputs);
  if (c.agreement.rule == Rule::contraction) t.magnitudes = run_truth(*build_case(c, DType::f64), absolute(t.inputs));
  return t;
}

struct Tightness {
  double ratio;
  std::string text;
};

// Achieved over allowed, so that slack is visible.
class Report {
 public:
  void add(const Case& c, const Comparison& r) { lines_.push_back({r.ratio, c.name + ": " + r.worst}); }
  void print(const std::string& title) {
    std::sort(lines_.begin(), lines_.end(), [](const Tightness& a, const Tightness& b) { return a.ratio > b.ratio; });
    std::printf("%s: %zu results agree; the tightest:\n", title.c_str(), lines_.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(lines_.size(), 5); ++i)
      std::printf("  %5.1f %% of the allowed error  %s\n", 100 * lines_[i].ratio, lines_[i].text.c_str());
  }

 private:
  std::vector<Tightness> lines_;
};

void check_results(const Case& c, int order, const TensorMap& got, const Truth& truth, bool flushes, Report& report) {
  const Agreement agreement = order == 0 ? c.agreement : Agreement{Rule::norm, k_gradient_depth};
  REQUIRE(got.size() == truth.results.size());
  for (const auto& result : truth.results) {
    const std::string& name = result.first;
    const Tensor& wanted = result.second;
    CAPTURE(name);
    const auto magnitude = truth.magnitudes.find(name);
    const bool own = name.rfind("d1_", 0) != 0;
    const Comparison r =
        compare(got.at(name), wanted, magnitude == truth.magnitudes.end() ? nullptr : &magnitude->second,
                own ? c.agreement : agreement, !own, flushes);
    report.add(c, r);
    CHECK_MESSAGE(r.ratio <= 1, r.worst);
  }
}

// Cases and their gradients on one backend in one dtype.
class Verification {
 public:
  Verification(const std::string& backend, DType dtype) : backend_(backend), dtype_(dtype) {
    const Capabilities able = open_tested(backend, {.threads = k_most_threads})->describe();
    const int most = backend == k_late ? std::min(able.threads, 2) : able.threads;
    deterministic_ = able.deterministic;
    flushes_ = able.flushes_denormals;
    for (int threads = 1; threads <= most; ++threads) pools_.push_back(open_tested(backend, {.threads = threads}));
    for (const std::string& schedule : tested_schedules(backend))
      for (int threads = 2; threads <= most; ++threads)
        pools_.push_back(open_tested(backend, scheduled(threads, schedule)));
  }

  // Every number of threads and every schedule gives the same bits, or, where the backend does not promise that,
  // results that agree; all of them are tried on the gradient, which holds the values too.
  void verify(const Case& c, int order, const Truth& truth) {
    const auto graph = gradient_graph(c, dtype_, order);
    const TensorMap inputs = make_inputs(*graph, c.ranges, c.name);
    const bool all = order > 0 || !c.differentiable;
    const std::size_t others = pools_.size() - 1;
    const std::size_t tried = std::min<std::size_t>(others, all ? setting("UNROLL_POOLS", others) : 1);
    CAPTURE(backend_);
    CAPTURE(static_cast<int>(dtype_));
    try {
      Program program(*graph, *pools_[0], k_verified);
      const TensorMap one = program.run(inputs), again = program.run(inputs);
      check_results(c, order, one, truth, flushes_, report_);
      for (const auto& result : one) CHECK_MESSAGE(same_bits(again.at(result.first), result.second), result.first);
      for (std::size_t n = 0; n < tried; ++n) {
        const std::size_t k = 1 + next_++ % others;
        CAPTURE(k);
        const TensorMap more = evaluate(*graph, *pools_[k], inputs, k_verified);
        if (!deterministic_) check_results(c, order, more, truth, flushes_, report_);
        else
          for (const auto& result : one) CHECK_MESSAGE(same_bits(more.at(result.first), result.second), result.first);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      std::printf("unsupported: %s on %s: %s\n", c.name.c_str(), backend_.c_str(), error.what());
      ++unsupported_;
      CHECK_MESSAGE(must_refuse(*pools_[0], *graph),
                    "refused, although the backend declares all that it needs: ", error.what());
    }
  }
  // Where g++ compiles the kernels (tests/backends/cuda/shim/compiler.cc), a few calls for all cases take a fraction of
  // the time.
  bool collects() const { return backend_ == "cuda" && std::getenv("UNROLL_SHIM_CACHE"); }
  void collect(const Case& c, int order) {
    try {
      Program(*gradient_graph(c, dtype_, order), *pools_[0], k_verified);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
    }
  }
  void finish() {
    report_.print(backend_ + " " + std::string(dtype_name(dtype_)) + ", " + std::to_string(unsupported_) +
                  " unsupported");
  }

 private:
  static inline const PlanOptions k_verified{.without = {}, .donate = {}, .verify_each = true};

  std::string backend_;
  DType dtype_;
  std::vector<std::unique_ptr<Backend>> pools_;  // of one thread first
  std::size_t next_ = 0;  // pool to try
  bool deterministic_, flushes_;
  int unsupported_ = 0;
  Report report_;
};

// Whether the case is one of those that are asked for.
bool is_wanted(const Case& c) {
  const char* const part = std::getenv("UNROLL_NAMES");
  const char* const ops = std::getenv("UNROLL_OPS");
  if (part && c.name.find(part) == std::string::npos) return false;
  if (!ops) return true;
  const std::string list = "," + std::string(ops) + ",";
  const std::vector<Op> seen = ops_of(*build_case(c, DType::f32));
  return std::any_of(seen.begin(), seen.end(), [&](Op op) {
    return list.find("," + std::string(op_info(op).name) + ",") != std::string::npos;
  });
}

}  // namespace

// The cases themselves are tested once, with the reference.

TEST_CASE("every op is exercised by a case") {
  if (!is_tested("reference")) return;
  std::set<Op> seen;
  for (const Case& c : all_cases())
    for (const Op op : ops_of(*build_case(c, DType::f32))) seen.insert(op);
  for (const OpInfo& info : op_table()) {
    CAPTURE(std::string(info.name));
    // The gradient of a composite appears when one is differentiated: run_gradients.cc.
    CHECK((seen.count(info.op) == 1 || info.op == Op::gradient));
  }
}

TEST_CASE("no result of a case is trivial") {
  if (!is_tested("reference")) return;
  for (const Case& c : all_cases()) {
    if (c.constant_output) continue;
    CAPTURE(c.name);
    const Truth truth = truth_of(c);
    for (const auto& result : truth.results) {
      CAPTURE(result.first);
      const std::string why = mistrust(result.second);
      CHECK_MESSAGE(why.empty(), why);
    }
  }
}

TEST_CASE("the reference in f32 agrees with itself in f64") {
  if (!is_tested("reference")) return;
  Report report;
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    const Truth truth = truth_of(c);
    const auto graph = build_case(c, DType::f32);
    check_results(c, 0, run_truth(*graph, make_inputs(*graph, c.ranges, c.name)), truth, /*flushes=*/false, report);
  }
  report.print("reference f32");
}

// On the reference itself this shows that passes and the memory plan change nothing: the truth is made without them.
TEST_CASE("every backend agrees with the reference without passes") {
  std::vector<Verification> verdicts;
  for (const std::string& name : tested_backends())
    for (const DType dtype : float_dtypes(name)) verdicts.emplace_back(name, dtype);
  setenv("UNROLL_SHIM_COLLECT", "1", 1);
  for (const Case& c : chosen_cases())
    for (int order = 0; order <= (c.differentiable ? 1 : 0) && is_wanted(c); ++order)
      for (Verification& verdict : verdicts)
        if (verdict.collects()) verdict.collect(c, order);
  unsetenv("UNROLL_SHIM_COLLECT");
  int verified = 0;
  for (const Case& c : chosen_cases())
    for (int order = 0; order <= (c.differentiable ? 1 : 0) && is_wanted(c); ++order) {
      ++verified;
      CAPTURE(c.name);
      CAPTURE(order);
      const Truth truth = truth_of(c, order);
      for (Verification& verdict : verdicts) verdict.verify(c, order, truth);
    }
  CHECK(verified > 0);
  for (Verification& verdict : verdicts) verdict.finish();
}
