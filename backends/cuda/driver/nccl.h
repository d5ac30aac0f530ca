// SPDX-License-Identifier: Apache-2.0
// The entry points of NCCL in a table, found at run time. Their types are declared here, so that builds need no header
// of NCCL; NCCL 2 keeps them compatible.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

namespace unroll::cuda {

inline constexpr int k_oldest_nccl = 21400;  // the first version whose calls need not block: 2.14

namespace nccl {

struct Communicator;  // of the library
struct UniqueId {
  char bytes[128];
};
// The struct of version 2.14. Later versions fill in their other fields.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = k_oldest_nccl;
  int blocking = 0;
};
enum class Result : int {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};
enum class Type : int { float32 = 7, float64 = 8 };

}  // namespace nccl

#define UNROLL_NCCL_FUNCTIONS(X)                                                                             \
  X(GetVersion, int*)                                                                                        \
  X(GetUniqueId, nccl::UniqueId*)                                                                            \
  X(CommInitRankConfig, nccl::Communicator**, int, nccl::UniqueId, int, nccl::Config*)                       \
  X(CommGetAsyncError, nccl::Communicator*, nccl::Result*)                                                   \
  X(CommFinalize, nccl::Communicator*)                                                                       \
  X(CommDestroy, nccl::Communicator*)                                                                        \
  X(CommAbort, nccl::Communicator*)                                                                          \
  X(GroupStart)                                                                                              \
  X(GroupEnd)                                                                                                \
  X(Send, const void*, std::size_t, nccl::Type, int, nccl::Communicator*, CUstream)                          \
  X(Recv, void*, std::size_t, nccl::Type, int, nccl::Communicator*, CUstream)

// The entry points nccl<name>.
struct NcclFunctions {
#define X(name, ...) nccl::Result (*name)(__VA_ARGS__) = nullptr;
  UNROLL_NCCL_FUNCTIONS(X)
#undef X
  const char* (*GetErrorString)(nccl::Result) = nullptr;
  const char* (*GetLastError)(nccl::Communicator*) = nullptr;
};

// Names of the library, tried in turn. Tests set them.
struct NcclLibraries {
  const char* names[2] = {"libnccl.so.2", "libnccl.so"};
};
NcclLibraries& nccl_libraries();

// Opens the library on the first call and keeps it. Throws Error(device), which names what is missing and its fix.
NcclFunctions open_nccl();
std::string nccl_version(int version);  // 22905 is "2.29"

}  // namespace unroll::cuda
