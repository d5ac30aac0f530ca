// SPDX-License-Identifier: Apache-2.0
// Claims: what each backend takes whole, with its reasons for refusing, and that a claimed composite and its gradient
// agree with the body, also at sizes that finite differences are too slow for.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/train/verify/agreement.h"
#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Gradients sum over other axes than values do; none of the cases sums more numbers than this.
constexpr int k_gradient_depth = 4096;

constexpr std::int64_t k_half_depth = 16;

bool is_claimed(const Node& node) { return node.attributes.get_or<bool>("claimed", false); }
bool has_claim(const Graph& graph) { return std::any_of(graph.nodes().begin(), graph.nodes().end(), is_claimed); }

bool has_gradient(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return op_info(node.op).tier != OpTier::composite || op_info(node.op).gradient == OpGradient::yes;
  });
}
bool is_composite(const Node& node) { return op_info(node.op).kind == OpKind::composite; }

// Values and, where the case has float inputs, all gradients: kinks do not matter to two computations of one formula.
std::shared_ptr<const Graph> with_gradient(const Case& c, DType dtype) {
  Case smooth = c;
  smooth.differentiable = true;
  return gradient_graph(smooth, dtype, 1);
}

void check_agreement(const Graph& graph, Backend& backend, const Graph& truth_graph, const TensorMap& inputs,
                     int depth) {
  const TensorMap truth = run_truth(truth_graph, in_dtype(inputs, DType::f64));
  const TensorMap got = evaluate(graph, backend, in_dtype(inputs, DType::f32));
  for (const auto& result : truth) {
    const std::string& name = result.first;
    CAPTURE(name);
    const testing::Comparison r = testing::compare(got.at(name), result.second, nullptr, {Rule::norm, depth}, true);
    CHECK_MESSAGE(r.ratio <= 1, r.worst);
  }
}

// One layer of each cell, with its parameters as inputs p0, p1, ...
RecurrentResult one_layer(Graph& g, Op cell, DType d, std::vector<Value>& wrt) {
  constexpr std::int64_t T = 5, B = 3, I = 4, H = 6;
  RecurrentOptions o;
  o.hidden = H;
  const std::int64_t gates = cell == Op::lstm ? 4 : cell == Op::gru ? 3 : 1;
  RecurrentInputs in;
  wrt.push_back(in.x = g.input("x", {d, {T, B, I}}));
  wrt.push_back(in.h0 = g.input("h0", {d, {1, B, H}}));
  if (cell == Op::lstm) wrt.push_back(in.c0 = g.input("c0", {d, {1, B, H}}));
  for (const Shape& shape : {Shape{gates * H, I}, Shape{gates * H, H}, Shape{gates * H}, Shape{gates * H}})
    wrt.push_back(in.parameters.emplace_back(g.input("p" + std::to_string(in.parameters.size()), {d, shape})));
  return recurrent(cell, in, o);
}

}  // namespace

TEST_CASE("what each backend claims, and why it refuses the rest") {
  for (const std::string& name : verified_backends()) {
    const auto backend = open_tested(name);
    std::map<std::string, int> claimed, refused;
    for (const DType dtype : float_dtypes(name))
      for (const Case& c : all_cases()) {
        const auto graph = build_case(c, dtype);
        for (const Node& node : graph->nodes()) {
          if (!is_composite(node)) continue;
          const Claim claim = backend->claim(*graph, node);
          CHECK(claim.yes == claim.reason.empty());
          const std::string what = std::string(op_info(node.op).name) + " " + std::string(dtype_name(dtype));
          ++(claim.yes ? claimed[what] : refused[what + ": " + claim.reason]);
        }
      }
    std::printf("%s claims\n", name.c_str());
    for (const auto& [what, count] : claimed) std::printf("  %4d  %s\n", count, what.c_str());
    std::printf("%s refuses\n", name.c_str());
    for (const auto& [what, count] : refused) std::printf("  %4d  %s\n", count, what.c_str());
  }
}

TEST_CASE("claimed composites and their gradients agree with the bodies") {
  for (const std::string& name : verified_backends()) {
    CAPTURE(name);
    const auto backend = open_tested(name);
    int n_values = 0, n_gradients = 0;
    for (const Case& c : chosen_cases()) {
      CAPTURE(c.name);
      const auto values = build_case(c, DType::f32);
      if (std::none_of(values->nodes().begin(), values->nodes().end(), is_composite)) continue;
      if (has_claim(*lower(*values, *backend))) {
        ++n_values;
        check_agreement(*values, *backend, *build_case(c, DType::f64), make_inputs(*values, c.ranges, c.name),
                        c.agreement.depth);
      }
      if (!has_gradient(*values)) continue;
      const auto gradients = with_gradient(c, DType::f32);
      if (!has_claim(*lower(*gradients, *backend))) continue;
      ++n_gradients;
      check_agreement(*gradients, *backend, *with_gradient(c, DType::f64), make_inputs(*gradients, c.ranges, c.name),
                      std::max(k_gradient_depth, c.agreement.depth));
    }
    std::printf("%s: %d cases with claims agree, %d with their gradients\n", name.c_str(), n_values, n_gradients);
  }
}

// In bf16 and f16 with the tolerance of the precision; every claim says its format, every refusal its reason.
TEST_CASE("composites that are claimed in 16 bits agree with the bodies in f64") {
  for (const std::string& name : verified_backends())
    for (const Precision precision : {Precision::bf16, Precision::f16}) {
      CAPTURE(name);
      CAPTURE(precision_name(precision));
      // Formats that the processor has no instructions for are tested too.
      const bool has_option = name == "onednn";
      const auto backend =
          has_option ? open_tested(name, {.specific = {{"emulate_formats", "true"}}}) : open_tested(name);
      PlanOptions options;
      options.precision = precision;
      int n_claimed = 0;
      std::map<std::string, int> refused;
      for (const Case& c : chosen_cases()) {
        CAPTURE(c.name);
        const auto values = build_case(c, DType::f32);
        for (const Node& node : values->nodes()) {
          if (!is_composite(node)) continue;
          const Claim claim = backend->claim_in(*values, node, precision);
          CHECK(claim.yes == claim.reason.empty());
          CHECK(claim.yes == is_half(claim.format));
          if (!claim.yes) ++refused[std::string(op_info(node.op).name) + ": " + claim.reason];
        }
        if (std::none_of(values->nodes().begin(), values->nodes().end(), is_composite) || !has_gradient(*values))
          continue;
        const auto graph = with_gradient(c, DType::f32);
        if (!has_claim(*lower(*graph, *backend, options))) continue;
        ++n_claimed;
        const TensorMap inputs = make_inputs(*graph, c.ranges, c.name);
        const TensorMap truth = run_truth(*with_gradient(c, DType::f64), in_dtype(inputs, DType::f64));
        const TensorMap got = evaluate(*graph, *backend, inputs, options);
        const Work work{std::max<std::int64_t>(k_half_depth, c.agreement.depth), true, 0, precision};
        for (const auto& result : truth) {
          CAPTURE(result.first);
          const Distance d = distance(got.at(result.first), result.second);
          CHECK_MESSAGE(d.relative <= allowed_distance(work, DType::f32), d.worst);
        }
      }
      const std::string in(precision_name(precision));
      std::printf("%s claims %d cases in %s\n", name.c_str(), n_claimed, in.c_str());
      for (const auto& [what, count] : refused) std::printf("  refuses %4d  %s\n", count, what.c_str());
    }
}

TEST_CASE("a gradient by one output for one parameter agrees with the body, also where nothing else is wanted") {
  for (const std::string& name : verified_backends()) {
    CAPTURE(name);
    const auto backend = open_tested(name);
    for (const Op cell : {Op::rnn, Op::gru, Op::lstm})
      for (std::size_t output = 0; output < (cell == Op::lstm ? 3u : 2u); ++output)
        for (std::size_t parameter = 0; parameter < (cell == Op::lstm ? 7u : 6u); ++parameter) {
          CAPTURE(std::string(op_info(cell).name));
          CAPTURE(output);
          CAPTURE(parameter);
          const auto build = [&](DType dtype) {
            auto g = std::make_shared<Graph>();
            std::vector<Value> wrt;
            const RecurrentResult r = one_layer(*g, cell, dtype, wrt);
            const std::vector<Value> all{r.y, r.hn, r.cn}, of{all[output]}, by{wrt[parameter]};
            const std::vector<Value> cotangent{g->input("cotangent", of[0].type())};
            g->output("d", differentiate(of, cotangent, by)[0]);
            return g;
          };
          const auto graph = build(DType::f32);
          check_agreement(*graph, *backend, *build(DType::f64), make_inputs(*graph, {}, "one"), k_gradient_depth);
        }
  }
}
