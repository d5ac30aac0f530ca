// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/functions.h"

#include <span>

#include "backends/cuda/driver/open.h"

namespace unroll::cuda {

namespace {

constexpr const char* k_driver_fix = "Install NVIDIA's driver, version 525 or newer";
constexpr const char* k_compiler_fix =
    "Install NVRTC of CUDA 12 or 13 (pip install nvidia-cuda-nvrtc-cu12) and put its folder into LD_LIBRARY_PATH";

Tamper& tamper() {
  static Tamper set = nullptr;
  return set;
}

}  // namespace

void open_driver(Functions& f) {
  const OpenLibrary library(std::span(&libraries().driver, 1), "the driver", k_driver_fix);
  using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto get = reinterpret_cast<GetProcAddress>(library.find_any("cuGetProcAddress_v2"));
  if (!get) library.refuse("the driver is older than CUDA " + version_text(k_oldest_driver));
  const auto find = [&](auto& entry, const char* symbol, int version) {
    void* at = nullptr;
    if (get(symbol, &at, version, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS || !at)
      library.refuse("the driver has no " + std::string(symbol));
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(at);
  };
#define X(name, version) find(f.name, "cu" #name, version);
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
}

void set_tamper(Tamper function) { tamper() = function; }

Libraries& libraries() {
  static Libraries names;
  return names;
}

void open_compiler(Functions& f) {
  const OpenLibrary library(libraries().compiler, "the compiler of kernels", k_compiler_fix);
#define X(name) library.find(f.compiler.name, "nvrtc" #name);
  UNROLL_CUDA_COMPILER_FUNCTIONS(X)
#undef X
}

Functions open_functions() {
  Functions f;
  open_driver(f);
  open_compiler(f);
  if (tamper()) tamper()(f);
  return f;
}

void check(const Functions& f, CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const char *name = nullptr, *text = nullptr;
  f.GetErrorName(result, &name);
  f.GetErrorString(result, &text);
  const bool memory = result == CUDA_ERROR_OUT_OF_MEMORY;
  const std::string error = name ? std::string(name) + (text ? ", " + std::string(text) : "")
                                 : "error " + std::to_string(static_cast<int>(result));
  throw Error(memory ? ErrorKind::memory : ErrorKind::device, "cuda", what + " failed: " + error,
              memory ? "Use a smaller batch or fewer steps, or close other programs on the device"
                     : "Run again; `unroll doctor` tests the device");
}

void check(const Functions& f, nvrtcResult result, const std::string& what) {
  if (result == NVRTC_SUCCESS) return;
  const char* const text = f.compiler.GetErrorString(result);
  throw Error(result == NVRTC_ERROR_OUT_OF_MEMORY ? ErrorKind::memory : ErrorKind::device, "cuda",
              what + " failed: " + (text ? text : "error " + std::to_string(static_cast<int>(result))));
}

void refuse_driver(int version) {
  throw Error(ErrorKind::device, "cuda",
              "the driver has CUDA " + version_text(version) + "; " + version_text(k_oldest_driver) + " is needed",
              k_driver_fix);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace unroll::cuda
