// SPDX-License-Identifier: Apache-2.0
// NVRTC compiles the kernels of all conformance cases for three architectures, where it is installed. No device runs.
#include <doctest/doctest.h>

#include <cstdio>
#include <memory>

#include "backends/cuda/context.h"
#include "backends/cuda/library/compiler.h"
#include "backends/cuda/program.h"
#include "core/passes/forwarding_backend.h"
#include "tests/support/cases.h"
#include "unroll/autodiff.h"
#include "unroll/error.h"
#include "unroll/run.h"

using namespace unroll;

namespace {

// Plans as the backend would.
class PlansForCuda final : public ForwardingBackend {
 public:
  PlansForCuda() : ForwardingBackend(make_backend("cuda:sm_90")) {}
  const Capabilities& describe() const override { return capabilities_; }

 private:
  Capabilities capabilities_ = cuda::capabilities_of({"a device", 90, 132, 13000, 13000, std::size_t{80} << 30, true});
};

}  // namespace

TEST_CASE("NVRTC compiles the kernels of all cases for sm_80, sm_90a and sm_100") {
  cuda::Functions functions;
  cuda::libraries().compiler[2] = "/usr/local/cuda/lib64/libnvrtc.so";
  try {
    cuda::open_compiler(functions);
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return;
  }
  const PlansForCuda backend;
  cuda::Kernels kernels;
  int plans = 0, refused = 0;
  for (const testing::Case& c : testing::all_cases())
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(c.name);
      try {
        const auto planned = plan(*testing::build_case(c, dtype), backend);
        kernels = cuda::compile_program(planned, 132, std::move(kernels), nullptr, /*whole_loops=*/true).kernels;
        ++plans;
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::unsupported);
        kernels = {};
        ++refused;
      }
    }
  CHECK(plans > 100);
  const std::string source = kernels.source();
  std::printf("%d plans, %d refused, %d kernels, %zu KiB of source\n", plans, refused, kernels.count(),
              source.size() >> 10);
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    std::string failure;
    try {
      CHECK(cuda::compile_image(functions, source, {std::string("--gpu-architecture=") + architecture}).size() > 1000);
    } catch (const Error& error) {
      failure = error.what();
    }
    CAPTURE(architecture);
    CHECK(failure == "");
  }
}
