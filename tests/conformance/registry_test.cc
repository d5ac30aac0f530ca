// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/null/backend.h"
#include "tests/support/simple_plan.h"
#include "unroll/error.h"
#include "unroll/ops.h"

using namespace unroll;

TEST_CASE("every available backend can be made under its name; of the others doctor has a reason") {
  for (const BackendStatus& status : list_backends()) {
    CAPTURE(status.name);
    CHECK_FALSE(status.detail.empty());
    if (status.available) CHECK(make_backend(status.name)->describe().name == status.name);
    else CHECK_THROWS_AS(make_backend(status.name), Error);
  }
}

TEST_CASE("what needs nothing from outside is always there") {
  std::vector<std::string> available;
  for (const BackendStatus& status : list_backends())
    if (status.available) available.push_back(status.name);
  for (const char* name : {"cpu", "reference", "null"})
    CHECK(std::find(available.begin(), available.end(), name) != available.end());
}

TEST_CASE("an unknown backend is refused with the nearest name") {
  try {
    make_backend("referense");
    FAIL("must throw");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::device);
    CHECK(std::string(e.what()).find("Did you mean 'reference'?") != std::string::npos);
  }
}

TEST_CASE("the null backend takes composites whole, gives zeros and records what it was asked") {
  auto g = std::make_shared<Graph>();
  g->output("y", softmax(g->input("x", {DType::f32, {2}})));
  NullBackend null;
  CHECK(null.claim(*g, g->nodes().back()).yes);
  const TensorMap out = testing::run_plan(testing::simple_plan(g), null, {{"x", Tensor::filled({DType::f32, {2}}, 1)}});
  CHECK(out.at("y").at(0) == 0);
  const std::vector<std::string> wanted{"claim softmax", "allocate 8", "upload 8", "allocate 8", "compile 2",
                                        "run",           "wait",       "download 8"};
  CHECK(null.calls() == wanted);
}
