// SPDX-License-Identifier: Apache-2.0
// The driver and the compiler of tests/cuda find the faults of kernels for which they are there.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "backends/cuda/library/compiler.h"
#include "unroll/error.h"

using namespace unroll;

namespace {

// Runs a kernel of two blocks of 64 threads on 128 numbers, which are their indices. Empty, or the error. In a
// cooperative launch the blocks run at the same time, and the last number is a zero.
std::string fault_of(const std::string& body, std::vector<float>* numbers = nullptr, bool cooperative = false) {
  cuda::Device device(0);
  device.enter();
  const std::string source = "struct k0_sizes { int n; };\nextern \"C\" __global__ void k0(float* x, k0_sizes n) {\n" +
                             body + "}\n";
  const std::string image = cuda::compile_image(device.f(), source, {"--gpu-architecture=sm_90"});
  const cuda::Module module(device, image, 1);
  std::vector<float> x(128);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  if (cooperative) x.back() = 0;
  CUdeviceptr at = device.allocate(x.size() * sizeof(float));
  device.upload(at, std::as_bytes(std::span(x)));
  std::int32_t n = 128;
  void* arguments[] = {&at, &n};
  const cuda::Functions& f = device.f();
  CUfunction k = module.kernel(0);
  device.check(cooperative ? f.LaunchCooperativeKernel(k, 2, 1, 1, 64, 1, 1, 0, device.stream(), arguments)
                           : f.LaunchKernel(k, 2, 1, 1, 64, 1, 1, 0, device.stream(), arguments, nullptr),
               "a launch");
  try {
    device.download(std::as_writable_bytes(std::span(x)), at);
  } catch (const Error& error) {
    return error.what();
  }
  device.release(at);
  if (numbers) *numbers = x;
  return {};
}

// A tile of a block is reversed through shared memory.
std::string reversed(const std::string& between) {
  return "  __shared__ float s[64];\n  s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];\n" + between +
         "  x[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];\n";
}

bool has_shim() {
  try {
    if (cuda::Device(0).limits().name == "CUDA shim on the host") return true;
    std::printf("skipped: a device runs the kernels\n");
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
  }
  return false;
}

}  // namespace

TEST_CASE("a kernel with its barriers gives the right numbers") {
  if (!has_shim()) return;
  std::vector<float> x;
  CHECK(fault_of(reversed("  __syncthreads();\n"), &x) == "");
  CHECK(x[0] == 63);
  CHECK(x[64] == 127);
}

TEST_CASE("races, wrong addresses and barriers that not all threads reach are errors") {
  if (!has_shim()) return;
  const std::string kernels[] = {
      reversed(""),                                                   // no barrier between write and read
      "  x[0] = 1.0f;\n",                                             // all threads write one number
      "  if (threadIdx.x == 0) x[blockIdx.x] = x[1 - blockIdx.x];\n",  // blocks in no order
      "  x[n.n] = 1.0f;\n",                                           // behind the end
      // shared memory that is not written
      "  __shared__ float s[64];\n  if (n.n == 0) s[threadIdx.x] = 1.0f;\n"
      "  x[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x];\n",
      reversed("  if (threadIdx.x < 32) __syncthreads();\n"),          // half of the threads wait
      reversed("  if (threadIdx.x < 32) __syncthreads();\n  else __syncthreads();\n"),
  };
  for (const std::string& kernel : kernels) {
    CAPTURE(kernel);
    CHECK(fault_of(kernel).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  }
}

TEST_CASE("blocks of a cooperative launch wait for each other, and what no barrier of the grid orders is an error") {
  if (!has_shim()) return;
  const std::string arrives =
      "  __syncthreads();\n  if (threadIdx.x == 0) {\n    unsigned* const at = (unsigned*)(x + 127);\n"
      "    const unsigned before = atomicAdd(at, blockIdx.x == 0 ? 0x7fffffffu : 1u);\n";
  const std::string waits = "    while (((before ^ __ldcv(at)) & 0x80000000u) == 0u) {}\n";
  const std::string end = "  }\n  __syncthreads();\n";
  const std::string writes = "  if (threadIdx.x == 1) x[blockIdx.x] = 7.0f + blockIdx.x;\n";
  const std::string reads = "  if (threadIdx.x == 2) x[2 + blockIdx.x] = x[1 - blockIdx.x];\n";
  std::vector<float> x;
  CHECK(fault_of(writes + arrives + waits + end + reads, &x, true) == "");
  CHECK(x[2] == 8);
  CHECK(x[3] == 7);
  const std::string kernels[] = {
      writes + reads,                                                            // no barrier at all
      writes + arrives + end + reads,                                            // arrives, and does not wait
      "  if (blockIdx.x == 1) return;\n" + writes + arrives + waits + end,       // one block is missing
  };
  for (const std::string& kernel : kernels) {
    CAPTURE(kernel);
    CHECK(fault_of(kernel, nullptr, true).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  }
}
