// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "backends/common/hazards.h"
#include "tests/support/null_backend.h"
#include "tests/support/simple_plan.h"
#include "tests/support/strict.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

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
  for (const char* name : {"cpu", "reference"})
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

TEST_CASE("options of one backend are checked by name and value, and a device index against the devices") {
  const auto refused = [](const std::string& name, const BackendOptions& options, ErrorKind kind,
                          const std::string& part) {
    try {
      make_backend(name, options);
      FAIL("must throw: ", part);
    } catch (const Error& e) {
      CHECK(e.kind() == kind);
      CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, e.what());
    }
  };
  refused("cpu", {.specific = {{"schedul", "rows"}}}, ErrorKind::usage,
          "[cpu] has no option 'schedul'. Did you mean 'schedule'? Known: schedule, products, predict");
  refused("cpu", {.specific = {{"schedule", "row"}}}, ErrorKind::usage,
          "option 'schedule' cannot be 'row'. Did you mean 'rows'? Known: calls, columns");
  refused("cpu", {.specific = {{"predict", "yes"}}}, ErrorKind::usage, "Known: false, true");
  refused("reference", {.specific = {{"predict", "true"}}}, ErrorKind::usage, "It takes no options of its own");
  refused("vulkan:generic", {.specific = {{"predict", "true"}}}, ErrorKind::usage, "has no option 'predict'");
  refused("cpu:mkl", {}, ErrorKind::usage, "[cpu] option 'products' cannot be 'mkl'. Known: own, openblas");
  refused("cpu:schedule=row", {}, ErrorKind::usage, "option 'schedule' cannot be 'row'. Did you mean 'rows'?");
  refused("cpu:own:schedul=rows", {}, ErrorKind::usage, "[cpu] has no option 'schedul'. Did you mean 'schedule'?");
  refused("reference:predict=true", {}, ErrorKind::usage, "It takes no options of its own");
  CHECK(make_backend("cpu:own:schedule=rows", {.threads = 1})->describe().name == "cpu");
  refused("cpu", {.device = 1}, ErrorKind::device, "[cpu] has one device; got index 1");
  for (const BackendStatus& status : list_backends())
    for (const BackendOption& option : backend_options(status.name)) {
      CAPTURE(option.name);
      CHECK_FALSE(option.what.empty());
      for (const std::string& value : option.values)
        if (status.available && option.name != "predict" && option.name != "validation" && value != "openblas")
          CHECK(make_backend(status.name, {.threads = 1, .specific = {{option.name, value}}}) != nullptr);
    }
  CHECK_THROWS_AS(backend_options("cpo"), Error);
}

TEST_CASE("a profile plans and compiles to a report; what needs its device throws") {
  const auto graph = std::make_shared<Graph>();
  const Value x = graph->input("x", {DType::f32, {6, 4}});
  graph->output("y", softmax(matmul(tanh(x * 2.0), x, {false, true})));
  CHECK(list_profiles().size() >= 2);
  for (const BackendStatus& status : list_profiles()) {
    CAPTURE(status.name);
    const auto backend = make_backend(status.name);
    const Capabilities& can = backend->describe();
    CHECK(can.name == status.name);
    CHECK_FALSE(can.runs);
    const auto made = plan(*graph, *backend);
    CHECK(made->alignment == can.alignment);
    CHECK(strict::violations(*made, common::hazards_of(*made)).empty());
    const auto executable = backend->compile(made);
    CHECK(executable->report().size() > 2);
    const auto refused = [&](const std::function<void()>& f) {
      try {
        f();
        FAIL("must throw");
      } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::device);
        CHECK(std::string(e.what()).find("[" + status.name + "] is a profile") == 0);
      }
    };
    refused([&] { backend->allocate(4); });
    refused([&] { executable->run({}); });
    refused([&] { Program(*graph, *backend).run({{"x", Tensor::filled({DType::f32, {6, 4}}, 1)}}); });
  }
  CHECK_THROWS_WITH_AS(make_backend("cuda:sm_91"), doctest::Contains("Did you mean 'cuda:sm_90'?"), Error);
  CHECK_THROWS_AS(make_backend("cuda:"), Error);
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
