// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/nccl.h"

#include <string>

#include "backends/cuda/driver/open.h"

namespace unroll::cuda {

namespace {

constexpr const char* k_nccl_fix =
    "Install NCCL 2.14 or newer (libnccl2, or pip install nvidia-nccl-cu12) and put its folder into LD_LIBRARY_PATH";

}  // namespace

NcclLibraries& nccl_libraries() {
  static NcclLibraries names;
  return names;
}

std::string nccl_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
}

NcclFunctions open_nccl() {
  const OpenLibrary library(nccl_libraries().names, "NCCL, which several ranks need,", k_nccl_fix);
  NcclFunctions f;
#define X(name, ...) library.find(f.name, "nccl" #name);
  UNROLL_NCCL_FUNCTIONS(X)
#undef X
  library.find(f.GetErrorString, "ncclGetErrorString");
  library.find(f.GetLastError, "ncclGetLastError");
  int version = 0;
  if (f.GetVersion(&version) != nccl::Result::success || version < k_oldest_nccl)
    library.refuse("NCCL has version " + nccl_version(version) + "; " + nccl_version(k_oldest_nccl) + " is needed");
  return f;
}

}  // namespace unroll::cuda
