// SPDX-License-Identifier: Apache-2.0
// Values: every case on every backend and dtype against the reference in f64, within the tolerance of its rule.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "tests/support/compare.h"
#include "unroll/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// The f64 results of a case on numbers that are exact in f32, and the magnitudes for its error bound.
struct Truth {
  TensorMap inputs, results, magnitudes;
};
Truth truth_of(const Case& c) {
  const auto graph = build_case(c, DType::f64);
  Truth t;
  t.inputs = make_inputs(*graph, c.ranges, c.name);
  t.results = run_truth(*graph, t.inputs);
  if (c.agreement.rule == Rule::contraction) t.magnitudes = run_truth(*graph, absolute(t.inputs));
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

void check_results(const Case& c, const TensorMap& got, const Truth& truth, Report& report) {
  REQUIRE(got.size() == truth.results.size());
  for (const auto& [name, wanted] : truth.results) {
    CAPTURE(name);
    const auto magnitude = truth.magnitudes.find(name);
    const Comparison r = compare(got.at(name), wanted, magnitude == truth.magnitudes.end() ? nullptr : &magnitude->second, c.agreement);
    report.add(c, r);
    CHECK_MESSAGE(r.ratio <= 1, r.worst);
  }
}

}  // namespace

TEST_CASE("every op is exercised by a case") {
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
  for (const Case& c : all_cases()) {
    if (c.constant_output) continue;
    CAPTURE(c.name);
    for (const auto& [name, result] : truth_of(c).results) {
      CAPTURE(name);
      const std::string why = mistrust(result);
      CHECK_MESSAGE(why.empty(), why);
    }
  }
}

TEST_CASE("the reference in f32 agrees with itself in f64") {
  Report report;
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    const Truth truth = truth_of(c);
    const auto graph = build_case(c, DType::f32);
    check_results(c, run_truth(*graph, make_inputs(*graph, c.ranges, c.name)), truth, report);
  }
  report.print("reference f32");
}
