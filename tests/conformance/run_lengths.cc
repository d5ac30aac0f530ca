// SPDX-License-Identifier: Apache-2.0
// The third form of lengths over all cases with their gradients, and over random scans: each plan is made twice, with
// loops that take their lengths again and with masked ones, for a device that fuses and groups rows. The reference
// kernels run both: equal numbers. UNROLL_SEED=n repeats a run, UNROLL_SCANS=n changes how many.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "tests/conformance/random_graphs.h"
#include "tests/support/around_backend.h"
#include "tests/support/cases.h"
#include "tests/support/finite_difference.h"
#include "tests/support/setting.h"
#include "tests/support/simple_plan.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr std::uint64_t k_scans = 300;

// Reference kernels under the plans of a device.
class Device final : public AroundBackend {
 public:
  explicit Device(Backend& reference) : AroundBackend(reference) {
    capabilities_.fuses = capabilities_.groups_rows = true;
    capabilities_.tuning.fewest_rows = 1;
    capabilities_.lanes = 2;
  }
};

int loops_with_lengths(const Graph& graph) {
  int n = 0;
  for (const Node& node : graph.nodes()) n += node.op == Op::scan && scan_layout(node).has_lengths;
  return n;
}

class BothForms {
 public:
  // Groups that add up neighboring rows are for masked loops only: another order of summation.
  void run(const Graph& graph, const TensorMap& inputs) {
    const auto restored = plan(graph, device_, {.without = {"sum_rows"}, .donate = {}, .verify_each = true});
    const int n = loops_with_lengths(*restored->graph);
    for (const PassNote& note : restored->notes)
      if (note.pass == "restore_lengths" && note.what == "kept masked") masked_[kind(note.why)] += note.count;
    if (n == 0) return;
    ++graphs_, loops_ += n;
    const auto masked = plan(graph, device_, {.without = {"sum_rows", "restore_lengths"}});
    REQUIRE(loops_with_lengths(*masked->graph) == 0);
    const TensorMap one = run_plan(restored, device_, inputs);
    for (const auto& result : run_plan(masked, device_, inputs))
      check_equal(result.first, one.at(result.first), result.second);
  }
  int loops() const { return loops_; }
  int masked(const std::string& why) const { return masked_.contains(why) ? masked_.at(why) : 0; }
  void print(const char* what) const {
    std::printf("%s: %d loops with lengths in %d plans", what, loops_, graphs_);
    if (unbounded_ > 0) std::printf(", %d results unbounded when masked", unbounded_);
    std::printf("\n");
    for (const auto& [why, n] : masked_) std::printf("  %4d masked: %s\n", n, why.c_str());
  }

 private:
  // Without shapes and numbers.
  static std::string kind(const std::string& why) {
    const std::size_t at = why.find(" in its step");
    if (at != std::string::npos) return why.substr(0, why.find(' ')) + why.substr(at);
    std::string text = why;
    for (char& c : text)
      if (c >= '0' && c <= '9') c = 'n';
    return text;
  }

  // A masked row goes on after its end, and what it computes may become infinite there; times zero that is no number.
  void check_equal(const std::string& name, const Tensor& restored, const Tensor& masked) {
    CAPTURE(name);
    for (std::int64_t i = 0; i < masked.elements(); ++i) {
      const double wanted = masked.at(i), got = restored.at(i);
      if (wanted == got || (std::isnan(wanted) && std::isnan(got))) continue;
      if (std::isnan(wanted)) {
        ++unbounded_;
        return;
      }
      FAIL_CHECK("element ", i, " is ", got, ", masked ", wanted);
      return;
    }
  }

  std::unique_ptr<Backend> reference_ = make_backend("reference");
  Device device_{*reference_};
  int graphs_ = 0, loops_ = 0, unbounded_ = 0;
  std::map<std::string, int> masked_;  // by reason
};

}  // namespace

TEST_CASE("cases and their gradients give equal numbers with lengths restored and masked") {
  BothForms both;
  for (const Case& c : chosen_cases())
    for (int order = 0; order <= (c.differentiable ? 1 : 0); ++order) {
      CAPTURE(c.name);
      CAPTURE(order);
      const auto graph = gradient_graph(c, DType::f32, order);
      both.run(*graph, make_inputs(*graph, c.ranges, c.name));
    }
  both.print("cases");
  CHECK(both.loops() > 0);
}

// The gradient of z / (1 + |z|) divides by 1 + |z|, which the backward loop stacks. A masked loop stacks it in all
// rows. A loop that leaves out ended rows stacks zeros there, and the product behind the division reads 0 / 0. The
// forward loop leaves out ended rows, and so do both loops without a division.
TEST_CASE("a loop stays masked where zeros of ended rows would become NaN in a product") {
  constexpr std::int64_t T = 2, B = 3, H = 2;
  for (const bool divides : {true, false}) {
    CAPTURE(divides);
    Graph graph;
    const auto input = [&](const char* name, Shape shape) { return graph.input(name, {DType::f32, std::move(shape)}); };
    const Value states[] = {input("h", {B, H})}, sequences[] = {input("x", {T, B, H})};
    const Value constants[] = {input("in", {H, H}), input("out", {H, H})};
    ScanOptions options;
    options.lengths = graph.input("lengths", {DType::i32, {B}});
    const auto step = [&](const StepValues& v) -> StepResult {
      const Value z = matmul(v.sequences[0], v.constants[0]), s = divides ? z / (abs(z) + 1) : z * (abs(z) + 1);
      const Value h = v.states[0] * 0.5 + tanh(matmul(s, v.constants[1]));
      return {{h}, {h, log(abs(z) + 0.5)}};
    };
    const ScanResult r = scan(states, sequences, constants, step, options);
    graph.output("dx", differentiate(sum(square(r.outputs[0])) + sum(square(r.outputs[1])), sequences)[0]);
    TensorMap inputs;
    for (const NamedValue& named : graph.inputs()) {
      Tensor tensor(graph.type(named.value));
      for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<double>(i % 3));
      inputs.emplace(named.name, std::move(tensor));
    }
    BothForms both;
    both.run(graph, inputs);
    CHECK(both.loops() == (divides ? 1 : 2));
    CHECK(both.masked("div fnn[n,n,n] behind it may be infinite where a row has ended") == (divides ? 1 : 0));
  }
}

TEST_CASE("random scans and their gradients give equal numbers with lengths restored and masked") {
  const std::uint64_t n = setting("UNROLL_SCANS", k_scans), seed = setting("UNROLL_SEED", std::random_device()());
  std::printf("random scans: UNROLL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  BothForms both;
  for (std::uint64_t k = 0; k < n; ++k) {
    CAPTURE(seed);
    CAPTURE(k);
    const RandomGraph random = random_scans(mixed(seed, k), DType::f32);
    append_gradient(*random.graph, 1);
    both.run(*random.graph, make_inputs(*random.graph, random.ranges, std::to_string(k)));
  }
  both.print("random scans");
  CHECK(static_cast<std::uint64_t>(both.loops()) >= n / 10);
}
