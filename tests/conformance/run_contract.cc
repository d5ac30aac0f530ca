// SPDX-License-Identifier: Apache-2.0
// The asynchronous contract on every backend, and on a late one that breaks one guarantee at a time.
#include <doctest/doctest.h>

#include <set>

#include "tests/support/backends.h"
#include "tests/support/contract.h"
#include "tests/support/late_backend.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

std::set<std::string> broken_on(Backend& backend) {
  std::set<std::string> names;
  for (const Guarantee& guarantee : guarantees())
    if (!guarantee.holds(backend)) names.insert(guarantee.name);
  return names;
}

}  // namespace

TEST_CASE("every backend keeps the asynchronous contract") {
  for (const std::string& name : tested_backends()) {
    CAPTURE(name);
    CHECK(broken_on(*open_tested(name, {.threads = 2})) == std::set<std::string>{});
    LateBackend late(open_tested(name, {.threads = 2}));
    CHECK(broken_on(late) == std::set<std::string>{});
  }
}

TEST_CASE("each guarantee that a late backend breaks is noticed") {
  struct Row {
    Broken broken;
    std::set<std::string> noticed;
  };
  const std::vector<Row> rows = {
      {Broken::none, {}},
      {Broken::loses_errors, {}},
      {Broken::upload_keeps_reference, {"upload copies its argument"}},
      {Broken::upload_overtakes, {"an upload comes after earlier runs"}},
      {Broken::download_overtakes, {"a download comes after earlier runs", "an upload comes after earlier runs"}},
      {Broken::runs_swap, {"runs keep their order"}},
  };
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.broken));
    LateBackend late(make_backend("reference"), row.broken);
    const std::set<std::string> found = broken_on(late);
    CHECK(found.empty() == row.noticed.empty());
    for (const std::string& name : row.noticed) CHECK_MESSAGE(found.contains(name), name);
  }
}

TEST_CASE("an error of a run surfaces once, typed, at a later call, and the backend goes on") {
  LateBackend late(make_backend("reference"));
  Graph graph;
  graph.output("y", graph.input("x", {DType::f32, {2}}) * 2.0);
  Program program(graph, late);
  const auto x = late.allocate(8), y = late.allocate(8), z = late.allocate(8);
  const float one[2] = {1, 1};
  late.upload(*x, 0, std::as_bytes(std::span(one)));
  late.fail_run(1, Error(ErrorKind::memory, "device", "has no memory left"));
  program.run({{x.get()}, {y.get()}});
  try {
    late.wait();
    FAIL("the error is lost");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::memory);
    CHECK(std::string(error.what()).find("has no memory left") != std::string::npos);
  }
  late.wait();
  late.upload(*x, 0, std::as_bytes(std::span(one)));
  program.run({{x.get()}, {z.get()}});
  float got[2] = {};
  late.download(*z, 0, std::as_writable_bytes(std::span(got)));
  CHECK(got[0] == 2);
}
