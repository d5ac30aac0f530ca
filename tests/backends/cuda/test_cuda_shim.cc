// SPDX-License-Identifier: Apache-2.0
// The driver and the compiler of tests/backends/cuda/shim find the faults of kernels for which they are there.
#include <doctest/doctest.h>

#if __has_include(<cudaTypedefs.h>)
#include <cudaTypedefs.h>
#define UNROLL_HAS_TYPEDEFS
#endif

#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cuda/kernels/compiler.h"
#include "unroll/support/error.h"

namespace test_cuda_shim {

using namespace unroll;

namespace {

// Runs a kernel of two blocks of 64 threads on 128 numbers, which are their indices. Empty, or the error. In a
// cooperative launch the blocks run at the same time, and the last number is a zero.
std::string fault_of(const std::string& body, std::vector<float>* numbers = nullptr, bool cooperative = false,
                     const std::string& functions = {}) {
  cuda::Device device(0);
  device.enter();
  const std::string source = functions + "struct k0_sizes { int n; };\nextern \"C\" __global__ void " +
                             "k0(float* x, k0_sizes n) {\n" +
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

// cuGetProcAddress has cuGraphInstantiate with other parameters than cuda.h, for one.
#ifdef UNROLL_HAS_TYPEDEFS
#define X(name, version)                                                                     \
  static_assert(version <= cuda::k_oldest_driver, "cu" #name " is newer than the oldest driver"); \
  static_assert(std::is_same_v<decltype(cuda::Functions::name), PFN_cu##name##_v##version>,  \
                "cu" #name " of that version has other parameters");
UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
#endif

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
      "  const float4 v = unroll_vector<float4>(x + 1);\n  if (n.n == 0) x[threadIdx.x] = v.x;\n",  // not aligned
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

// PTX ISA, "Matrix Fragments for mma": where a warp holds a[16, terms] and b[terms, 8]. Thread 4g + q has rows g and
// g + 8 of a and of the sums, column g of b, and columns 2q and 2q + 1 of the sums.
TEST_CASE("tensor cores of the shim multiply small whole numbers in three formats") {
  if (!has_shim()) return;
  const std::string functions =
      "__device__ inline int a_of(int row, int k) { return (row * 5 + k * 3) % 7 - 3; }\n"
      "__device__ inline int b_of(int k, int column) { return (k * 2 + column * 3) % 7 - 3; }\n"
      "__device__ inline unsigned f16_of(int n) {\n"
      "  const int size = n < 0 ? -n : n;\n"
      "  return (n < 0 ? 0x8000u : 0u) | (size == 0 ? 0u : size == 1 ? 0x3c00u : size == 2 ? 0x4000u : 0x4200u);\n}\n"
      "__device__ inline unsigned bf16_of(int n) { return __float_as_uint(float(n)) >> 16; }\n"
      "__device__ inline unsigned tf32_of(int n) { return __float_as_uint(float(n)); }\n";
  for (const std::string kind : {"bf16", "f16", "tf32"}) {
    CAPTURE(kind);
    const bool is_wide = kind == "tf32";
    const auto word = [&](const std::string& of, const std::string& k) {
      const auto call = [&](const std::string& term) {
        const std::string arguments = of[0] == 'b' ? term + ", g" : of.substr(1) + ", " + term;
        return kind + "_of(" + of[0] + std::string("_of(") + arguments + "))";
      };
      return is_wide ? call(k) : call(k) + " | " + call(k + " + 1") + " << 16";
    };
    const std::string low = is_wide ? "q" : "2 * q", high = is_wide ? "q + 4" : "2 * q + 8";
    const std::string body = "  if (blockIdx.x > 0 || threadIdx.x >= 32) return;\n"
                             "  const int g = threadIdx.x / 4, q = threadIdx.x % 4;\n  float sums[4] = {1, 1, 1, 1};\n"
                             "  const uint4 a = {" + word("ag", low) + ", " + word("ag + 8", low) + ", " +
                             word("ag", high) + ", " + word("ag + 8", high) + "};\n  unroll_mma_" + kind +
                             "(sums, a, " + word("b", low) + ", " + word("b", high) + ");\n"
                             "  for (int i = 0; i < 4; ++i) x[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = sums[i];\n";
    std::vector<float> x;
    REQUIRE(fault_of(body, &x, false, functions) == "");
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        int sum = 1;
        for (int k = 0; k < (is_wide ? 8 : 16); ++k)
          sum += ((row * 5 + k * 3) % 7 - 3) * ((k * 2 + column * 3) % 7 - 3);
        CHECK(x[static_cast<std::size_t>(row * 8 + column)] == static_cast<float>(sum));
      }
  }
  // A lane that does not take part.
  const std::string alone = "  float sums[4] = {0, 0, 0, 0};\n  const uint4 a = {0, 0, 0, 0};\n"
                            "  if (threadIdx.x != 5) unroll_mma_bf16(sums, a, 0u, 0u);\n  __syncthreads();\n";
  CHECK(fault_of(alone).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
}

TEST_CASE("blocks of a cooperative launch wait for each other, and what no barrier of the grid orders is an error") {
  if (!has_shim()) return;
  const std::string arrives =
      "  __syncthreads();\n  if (threadIdx.x == 0) {\n    unsigned* const at = (unsigned*)(x + 127);\n"
      "    const unsigned before = unroll_arrive(at, blockIdx.x == 0 ? 0x7fffffffu : 1u);\n";
  const std::string waits = "    while (((before ^ unroll_arrivals(at)) & 0x80000000u) == 0u) {}\n";
  const std::string end = "  }\n  __syncthreads();\n";
  const std::string writes = "  if (threadIdx.x == 1) x[blockIdx.x] = 7.0f + blockIdx.x;\n";
  const std::string reads = "  if (threadIdx.x == 2) x[2 + blockIdx.x] = x[1 - blockIdx.x];\n";
  std::vector<float> x;
  CHECK(fault_of(writes + arrives + waits + end + reads, &x, true) == "");
  CHECK(x[2] == 8);
  CHECK(x[3] == 7);
  // What other blocks read before the barrier is over, even if the block itself reads it again.
  const std::string again = "  if (threadIdx.x == 3) x[blockIdx.x] = x[blockIdx.x] + 1.0f;\n";
  CHECK(fault_of(reads + arrives + waits + end + again, &x, true) == "");
  CHECK(x[0] == 1);
  CHECK(x[1] == 2);
  const std::string kernels[] = {
      reads + again,                                                             // read by the other block
      writes + reads,                                                            // no barrier at all
      writes + arrives + end + reads,                                            // arrives, and does not wait
      "  if (blockIdx.x == 1) return;\n" + writes + arrives + waits + end,       // one block is missing
  };
  for (const std::string& kernel : kernels) {
    CAPTURE(kernel);
    CHECK(fault_of(kernel, nullptr, true).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  }
}

}  // namespace test_cuda_shim
