// SPDX-License-Identifier: Apache-2.0
// Gradients: every differentiable case by four-point central differences in f64 on the reference, first and second
// order. f'(x) = (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h, with an error of h^4 f^(5) / 30 and u |f| / h.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/support/cases.h"
#include "tests/support/finite_difference.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Ops on a path from a differentiated input to an output: what a gradient case covers.
void add_covered(const Graph& graph, std::set<Op>& covered) {
  const auto nodes = graph.nodes();
  std::vector<bool> depends(nodes.size()), needed(nodes.size());
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    depends[id] = nodes[id].op == Op::input && is_float(nodes[id].outputs[0].dtype);
    for (const ValueId& v : nodes[id].inputs) depends[id] = depends[id] || depends[static_cast<std::size_t>(v.node)];
  }
  for (const NamedValue& output : graph.outputs()) needed[static_cast<std::size_t>(output.value.node)] = true;
  for (std::size_t id = nodes.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const ValueId& v : nodes[id].inputs) needed[static_cast<std::size_t>(v.node)] = true;
    if (depends[id]) covered.insert(nodes[id].op);
    if (nodes[id].body) add_covered(*nodes[id].body, covered);
  }
}

void check_all(int order) {
  double tightest = 0;
  std::int64_t cases = 0, elements = 0;
  for (const Case& c : chosen_cases()) {
    if (!c.differentiable) continue;
    CAPTURE(c.name);
    const GradientCheck check = check_gradient(c, order);
    CHECK_MESSAGE(check.ratio <= 1, check.worst);
    tightest = std::max(tightest, check.ratio);
    elements += check.elements;
    ++cases;
  }
  std::printf("order %d: %lld cases, %lld derivatives, at most %.1f %% of the allowed error\n", order,
              static_cast<long long>(cases), static_cast<long long>(elements), 100 * tightest);
}

}  // namespace

TEST_CASE("every differentiable op is covered by a gradient case") {
  std::set<Op> covered;
  for (const Case& c : all_cases())
    if (c.differentiable) add_covered(*build_case(c, DType::f64), covered);
  for (const OpInfo& info : op_table()) {
    if (info.gradient != OpGradient::yes || info.op == Op::gradient)
      continue;  // gradient: the second order of composites
    CAPTURE(std::string(info.name));
    CHECK(covered.count(info.op) == 1);
  }
}

TEST_CASE("gradients equal central differences") { check_all(1); }

TEST_CASE("gradients of gradients equal central differences of gradients") { check_all(2); }
