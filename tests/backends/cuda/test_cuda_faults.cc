// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA driver and of NVRTC, through the function table: typed, no crash, and a backend that is opened
// afterwards works; and what is said of libraries that are missing. On the driver of the tests
// (tests/backends/cuda/shim), or on a device.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstdio>
#include <string>

#include "backends/cuda/driver/nccl.h"
#include "tests/backends/cuda/cuda_hooks.h"
#include "tests/support/loop_networks.h"
#include "tests/support/text.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/libraries.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_cuda_faults {

using namespace unroll;
using namespace unroll::testing;
using namespace unroll::cuda;
using namespace unroll::cuda_hooks;

namespace {

void make_old(Functions& f) {
  f.DriverGetVersion = [](int* version) {
    *version = 11080;
    return CUDA_SUCCESS;
  };
}

void older_than_compiler(Functions& f) {
  f.DriverGetVersion = [](int* version) {
    *version = 12040;
    return CUDA_SUCCESS;
  };
  f.compiler.Version = [](int* major, int* minor) {
    *major = 13, *minor = 0;
    return NVRTC_SUCCESS;
  };
}

// Opens, uploads, compiles, runs three times, the last ones as a graph, and reads.
float work() { return testing::sum_of_two_steps(*make_backend("cuda"), 3); }
constexpr float k_wanted = 9;

// Empty: it works; otherwise the reason why there is no backend.
std::string absent() {
  try {
    make_backend("cuda");
    return {};
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::device);
    CHECK(exit_code(error.kind()) == 5);
    return error.what();
  }
}

}  // namespace

TEST_CASE("what is missing is named, with its fix") {
  const Libraries real = libraries();
  libraries().driver = "libcuda-absent.so";
  CHECK(contains(absent(), "no libcuda-absent.so"));
  CHECK(contains(absent(), "Install NVIDIA's driver"));
  libraries() = real;
  if (!absent().empty()) return;  // the rest needs a driver
  for (const char*& name : libraries().compiler) name = "libnvrtc-absent.so";
  CHECK(contains(absent(), "no libnvrtc-absent.so"));
  CHECK(contains(absent(), "Install NVRTC"));
  libraries() = real;
  set_tamper(make_old);
  CHECK(contains(absent(), "the driver has CUDA 11.8; 12.0 is needed"));
  set_tamper(older_than_compiler);
  CHECK(contains(absent(), "the driver has CUDA 12.4, and does not load kernels of NVRTC 13."));
  set_tamper(nullptr);
  CHECK(work() == k_wanted);
}

TEST_CASE("every library is listed with its version, or what is missing and the fix, also several at once") {
  const auto listed = [] {
    std::string text;
    for (const LibraryStatus& status : list_libraries())
      text += status.name + (status.available ? ": " : " missing: ") + status.detail + "\n";
    return text;
  };
  const bool has_shim = absent().empty() && contains(make_backend("cuda")->describe().device, "CUDA shim");
  if (has_shim)
    CHECK(listed() == "driver: CUDA 13.0\nNVRTC: 13.0\ncuBLASLt: 13.1\ncuDNN: 9.19\nNCCL: " +
                          listed().substr(listed().find("NCCL: ") + 6));
  const Libraries real = libraries();
  const BlasLibraries real_blas = blas_libraries();
  const DnnLibraries real_dnn = dnn_libraries();
  const NcclLibraries real_nccl = nccl_libraries();
  libraries() = {"libcuda-absent.so", {"libnvrtc-absent.so", "libnvrtc-absent.so", "libnvrtc-absent.so"}};
  blas_libraries() = {{"libblas-absent.so", "libblas-absent.so", "libblas-absent.so"}};
  dnn_libraries() = {{"libdnn-absent.so", "libdnn-absent.so"}};
  nccl_libraries() = {{"libnccl-absent.so", "libnccl-absent.so"}};
  const std::string missing = listed();
  for (const char* part : {"driver missing: ", "no libcuda-absent.so", "Install NVIDIA's driver", "NVRTC missing: ",
                           "no libnvrtc-absent.so", "Install NVRTC", "cuBLASLt missing: ", "no libblas-absent.so",
                           "Install cuBLAS", "cuDNN missing: ", "no libdnn-absent.so", "Install cuDNN 9",
                           "NCCL missing: ", "no libnccl-absent.so"}) {
    CAPTURE(part);
    CHECK(contains(missing, part));
  }
  libraries() = real, blas_libraries() = real_blas, dnn_libraries() = real_dnn, nccl_libraries() = real_nccl;
  if (!has_shim) return;
  set_dnn_tamper([](DnnFunctions& f) { f.GetVersion = [] { return std::size_t{91900}; }; });
  CHECK(contains(listed(), "cuDNN: 9.19"));
  set_dnn_tamper(nullptr);
  setenv("UNROLL_SHIM_DRIVER", "11080", 1);
  CHECK(contains(listed(), "the driver has CUDA 11.8; 12.0 is needed"));
  unsetenv("UNROLL_SHIM_DRIVER");
}

TEST_CASE("each call that fails gives a typed error and no crash") {
  if (const std::string why = absent(); !why.empty()) return void(std::printf("skipped: %s\n", why.c_str()));
  set_tamper(tamper_driver);
  fault() = {};
  REQUIRE(work() == k_wanted);
  const int n = fault().calls;
  int thrown = 0, survived = 0;
  for (int due = 0; due < n; ++due) {
    fault() = {0, due, due % 2 == 0, nullptr};
    try {
      const float result = work();
      CAPTURE(fault().failed);
      CHECK(result == k_wanted);  // it was a call whose failure harms nothing, such as a last wait
      ++survived;
    } catch (const Error& error) {
      CAPTURE(std::string(error.what()));
      CAPTURE(fault().failed);
      REQUIRE(fault().failed);
      CHECK(error.kind() == (due % 2 == 0 ? ErrorKind::memory : ErrorKind::device));
      ++thrown;
    }
  }
  std::printf("%d calls failed once each: %d errors, %d without effect\n", n, thrown, survived);
  CHECK(thrown > survived);
  fault() = {};
  CHECK(work() == k_wanted);
  set_tamper(nullptr);
}

TEST_CASE("memory that the device does not have is exit code 7") {
  if (const std::string why = absent(); !why.empty()) return void(std::printf("skipped: %s\n", why.c_str()));
  const auto backend = make_backend("cuda");
  try {
    backend->allocate(std::size_t{1} << 50);
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(exit_code(error.kind()) == 7);
  }
  CHECK(work() == k_wanted);
}

TEST_CASE("a kernel that fails breaks the device: every later call says so") {
  if (const std::string why = absent(); !why.empty()) return void(std::printf("skipped: %s\n", why.c_str()));
  if (!contains(make_backend("cuda")->describe().device, "CUDA shim"))
    return void(std::printf("skipped: kernels of a device cannot be made to fail\n"));
  const auto backend = make_backend("cuda");
  const auto buffer = backend->allocate(64);
  setenv("UNROLL_SHIM_FAULT", "1", 1);
  const auto fails = [](const auto& call) {
    try {
      call();
      return false;
    } catch (const Error& error) {
      return exit_code(error.kind()) == 5 && contains(error.what(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    }
  };
  std::byte bytes[4];
  CHECK(fails(work));
  CHECK(fails([&] { backend->download(*buffer, 0, bytes); }));
  CHECK(fails([&] { backend->upload(*buffer, 0, bytes); }));
  CHECK(fails([&] { backend->allocate(4); }));
  CHECK(fails([&] { backend->wait(); }));
  unsetenv("UNROLL_SHIM_FAULT");
}

}  // namespace test_cuda_faults
