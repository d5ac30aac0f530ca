// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/functions.h"

#include <dlfcn.h>

#include <iterator>

#include "unroll/error.h"

namespace unroll::cuda {

namespace {

constexpr const char* k_driver_fix = "Install NVIDIA's driver, version 525 or newer";
constexpr const char* k_compiler_fix =
    "Install NVRTC of CUDA 12 or 13 (pip install nvidia-cuda-nvrtc-cu12) and put its folder into LD_LIBRARY_PATH";

Tamper& tamper() {
  static Tamper set = nullptr;
  return set;
}

// Libraries are never closed: the driver keeps threads of its own.
void* open_library(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void find_driver(Functions& f) {
  const char* const name = libraries().driver;
  void* const library = open_library(name);
  if (!library)
    throw Error(ErrorKind::device, "cuda", "the driver cannot be opened: no " + std::string(name), k_driver_fix);
  using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get)
    throw Error(ErrorKind::device, "cuda", "the driver is older than CUDA " + version_text(k_oldest_driver),
                k_driver_fix);
  const auto find = [&](auto& entry, const char* symbol) {
    void* at = nullptr;
    if (get(symbol, &at, k_oldest_driver, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS || !at)
      throw Error(ErrorKind::device, "cuda", "the driver has no " + std::string(symbol), k_driver_fix);
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(at);
  };
#define X(name) find(f.name, "cu" #name);
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
}

}  // namespace

void set_tamper(Tamper function) { tamper() = function; }

Libraries& libraries() {
  static Libraries names;
  return names;
}

void open_compiler(Functions& f) {
  void* library = nullptr;
  for (const char* name : libraries().compiler)
    if (!library) library = open_library(name);
  if (!library)
    throw Error(ErrorKind::device, "cuda",
                "the compiler of kernels cannot be opened: no " + std::string(libraries().compiler[0]),
                k_compiler_fix);
  const auto find = [&](auto& entry, const char* symbol) {
    void* const at = dlsym(library, symbol);
    if (!at) throw Error(ErrorKind::device, "cuda", "NVRTC has no " + std::string(symbol), k_compiler_fix);
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(at);
  };
#define X(name) find(f.compiler.name, "nvrtc" #name);
  UNROLL_CUDA_COMPILER_FUNCTIONS(X)
#undef X
}

Functions open_functions() {
  Functions f;
  find_driver(f);
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

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace unroll::cuda
