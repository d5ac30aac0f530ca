// SPDX-License-Identifier: Apache-2.0
// Node by node: of no case's plan, gradient included, a node is blamed on a backend (the first argument; else on any).
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/backends.h"
#include "tests/support/cases.h"
#include "tests/support/finite_difference.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/train/compare.h"

using namespace unroll;
using namespace unroll::testing;

TEST_CASE("no node of any case is blamed on any backend") {
  const auto verifier = make_backend("reference");
  for (const std::string& name : verified_backends()) {
    const auto backend = open_tested(name, {.threads = 2});
    double tightest = 0;
    std::string at;
    std::int64_t nodes = 0, unverified = 0;
    int unsupported = 0;
    for (const Case& c : chosen_cases()) {
      CAPTURE(name);
      CAPTURE(c.name);
      const auto graph = gradient_graph(c, DType::f32, c.differentiable ? 1 : 0);
      if (must_refuse(*backend, *graph)) {
        CHECK_THROWS_AS(Program(*graph, *backend), Error);
        std::printf("unsupported: %s on %s\n", c.name.c_str(), name.c_str());
        ++unsupported;
        continue;
      }
      const TensorMap inputs = make_inputs(*graph, c.ranges, c.name);
      const NodeCheck check = check_nodes(*graph, inputs, *backend, *verifier);
      if (check.fault) MESSAGE(check.fault->text());
      CHECK(!check.fault);
      CHECK(check.skipped.empty());
      nodes += check.nodes;
      unverified += check.unverified;
      if (check.tightest > tightest) {
        tightest = check.tightest;
        at = c.name;
      }
    }
    std::printf("%s: %d cases unsupported; %lld nodes verified, %lld not; at most %.1f %% of the allowed error, in "
                "%s\n",
                name.c_str(), unsupported, static_cast<long long>(nodes), static_cast<long long>(unverified),
                100 * tightest, at.c_str());
  }
}
