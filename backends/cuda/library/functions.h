// SPDX-License-Identifier: Apache-2.0
// The entry points of the CUDA driver and of NVRTC in one table, found at run time. The table is where tests let calls
// fail.
#pragma once

#include <cuda.h>
#include <nvrtc.h>

#include <string>

namespace unroll::cuda {

// The oldest CUDA version of a driver that runs the backend. Entry points have the signatures of this version.
inline constexpr int k_oldest_driver = 12000;

#define UNROLL_CUDA_DRIVER_FUNCTIONS(X)                                                                            \
  X(Init) X(DriverGetVersion) X(DeviceGetCount) X(DeviceGet) X(DeviceGetName) X(DeviceGetAttribute)                \
  X(DeviceTotalMem) X(DevicePrimaryCtxRetain) X(DevicePrimaryCtxRelease) X(CtxSetCurrent)                          \
  X(DeviceGetDefaultMemPool) X(MemPoolSetAttribute) X(MemAlloc) X(MemFree) X(MemAllocAsync) X(MemFreeAsync)        \
  X(MemHostAlloc) X(MemFreeHost) X(MemcpyHtoDAsync) X(MemcpyDtoHAsync) X(MemcpyDtoDAsync) X(StreamCreate)          \
  X(StreamDestroy) X(StreamSynchronize) X(StreamQuery) X(StreamBeginCapture) X(StreamEndCapture)                   \
  X(GraphInstantiate) X(GraphLaunch) X(GraphExecDestroy) X(GraphDestroy) X(EventCreate) X(EventDestroy)            \
  X(EventRecord) X(EventSynchronize) X(ModuleLoadData) X(ModuleUnload) X(ModuleGetFunction) X(LaunchKernel)        \
  X(LaunchCooperativeKernel) X(LaunchKernelEx) X(FuncSetAttribute)             \
  X(OccupancyMaxActiveClusters) X(OccupancyMaxActiveBlocksPerMultiprocessor) X(GetErrorName) X(GetErrorString)
#define UNROLL_CUDA_COMPILER_FUNCTIONS(X)                                                                          \
  X(Version) X(GetNumSupportedArchs) X(GetSupportedArchs) X(CreateProgram) X(CompileProgram) X(DestroyProgram)     \
  X(GetCUBINSize) X(GetCUBIN) X(GetPTXSize) X(GetPTX) X(GetProgramLogSize) X(GetProgramLog) X(GetErrorString)

// The entry points cu<name> and nvrtc<name>.
struct Functions {
#define X(name) decltype(&cu##name) name = nullptr;
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
  struct Compiler {
#define X(name) decltype(&nvrtc##name) name = nullptr;
    UNROLL_CUDA_COMPILER_FUNCTIONS(X)
#undef X
  } compiler;
};

// Changes the table that was just filled; null: nothing. Tests set it to let calls fail.
using Tamper = void (*)(Functions& functions);
void set_tamper(Tamper tamper);
// Names of the shared libraries, tried in turn. Tests set them.
struct Libraries {
  const char* driver = "libcuda.so.1";
  const char* compiler[3] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
};
Libraries& libraries();

// Opens the libraries on the first call and keeps them. Throws Error(device), which names what is missing and its fix.
Functions open_functions();
// Without NVRTC.
void open_driver(Functions& functions);
// Fills Functions::compiler only.
void open_compiler(Functions& functions);

// Throws Error(memory) when memory is exhausted, else Error(device), naming what failed.
void check(const Functions& functions, CUresult result, const std::string& what);
void check(const Functions& functions, nvrtcResult result, const std::string& what);
[[noreturn]] void refuse_driver(int version);  // that is older than k_oldest_driver
std::string version_text(int version);  // 13000 is "13.0"

}  // namespace unroll::cuda
