// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/nccl.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "unroll/error.h"

namespace unroll::cuda {

namespace {

constexpr const char* k_fix =
    "Install NCCL 2.14 or newer (libnccl2, or pip install nvidia-nccl-cu12) and put its folder into LD_LIBRARY_PATH";

NcclTamper& nccl_tamper() {
  static NcclTamper set = nullptr;
  return set;
}

std::string version_of(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

}  // namespace

NcclLibraries& nccl_libraries() {
  static NcclLibraries names;
  return names;
}

void set_nccl_tamper(NcclTamper function) { nccl_tamper() = function; }

NcclFunctions open_nccl() {
  void* library = nullptr;
  for (const char* name : nccl_libraries().names)
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(ErrorKind::device, "cuda",
                "several ranks need NCCL, which cannot be opened: no " + std::string(nccl_libraries().names[0]), k_fix);
  const auto find = [&](auto& entry, const char* symbol) {
    void* const at = dlsym(library, symbol);
    if (!at) throw Error(ErrorKind::device, "cuda", "NCCL has no " + std::string(symbol), k_fix);
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(at);
  };
  NcclFunctions f;
#define X(name, ...) find(f.name, "nccl" #name);
  UNROLL_NCCL_FUNCTIONS(X)
#undef X
  find(f.GetErrorString, "ncclGetErrorString");
  find(f.GetLastError, "ncclGetLastError");
  if (nccl_tamper()) nccl_tamper()(f);
  int version = 0;
  if (f.GetVersion(&version) != nccl::Result::success || version < k_oldest_nccl)
    throw Error(ErrorKind::device, "cuda",
                "NCCL has version " + version_of(version) + "; " + version_of(k_oldest_nccl) + " is needed", k_fix);
  return f;
}

}  // namespace unroll::cuda
