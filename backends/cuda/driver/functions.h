// SPDX-License-Identifier: Apache-2.0
// The entry points of the CUDA driver and of NVRTC in one table, found at run time. The table is where tests let calls
// fail.
#pragma once

#include <cuda.h>
#include <nvrtc.h>

#include <string>

namespace unroll::cuda {

// The oldest CUDA version of a driver that runs the backend.
inline constexpr int k_oldest_driver = 12000;

// Entry points and the CUDA versions whose signatures they have: of some names the driver has several.
#define UNROLL_CUDA_DRIVER_FUNCTIONS(X)                                                                            \
  X(Init, 2000) X(DriverGetVersion, 2020) X(DeviceGetCount, 2000) X(DeviceGet, 2000) X(DeviceGetName, 2000)        \
  X(DeviceGetAttribute, 2000) X(DeviceTotalMem, 3020) X(DevicePrimaryCtxRetain, 7000)                              \
  X(DevicePrimaryCtxRelease, 11000) X(CtxSetCurrent, 4000) X(DeviceGetDefaultMemPool, 11020)                       \
  X(MemPoolSetAttribute, 11020) X(MemAlloc, 3020) X(MemFree, 3020) X(MemAllocAsync, 11020)                         \
  X(MemFreeAsync, 11020) X(MemHostAlloc, 2020) X(MemFreeHost, 2000) X(MemcpyHtoDAsync, 3020)                       \
  X(MemcpyDtoHAsync, 3020) X(MemcpyDtoDAsync, 3020) X(MemsetD8Async, 3020) X(StreamCreate, 2000)                   \
  X(StreamDestroy, 4000) X(StreamSynchronize, 2000) X(StreamQuery, 2000) X(StreamBeginCapture, 10010)              \
  X(StreamEndCapture, 10000)                                                                                       \
  X(GraphInstantiateWithFlags, 11040) X(GraphLaunch, 10000) X(GraphExecDestroy, 10000) X(GraphDestroy, 10000)      \
  X(EventCreate, 2000) X(EventDestroy, 4000) X(EventRecord, 2000) X(EventSynchronize, 2000)                        \
  X(EventElapsedTime, 2000)                                                                                        \
  X(ModuleLoadData, 2000) X(ModuleUnload, 2000) X(ModuleGetFunction, 2000) X(LaunchKernel, 4000)                   \
  X(LaunchCooperativeKernel, 9000) X(LaunchKernelEx, 11060) X(FuncSetAttribute, 9000)                              \
  X(OccupancyMaxActiveClusters, 11070) X(OccupancyMaxActiveBlocksPerMultiprocessor, 6050) X(GetErrorName, 6000)    \
  X(GetErrorString, 6000)
#define UNROLL_CUDA_COMPILER_FUNCTIONS(X)                                                                          \
  X(Version) X(GetNumSupportedArchs) X(GetSupportedArchs) X(CreateProgram) X(CompileProgram) X(DestroyProgram)     \
  X(GetCUBINSize) X(GetCUBIN) X(GetPTXSize) X(GetPTX) X(GetProgramLogSize) X(GetProgramLog) X(GetErrorString)

// The entry points cu<name> and nvrtc<name>.
struct Functions {
#define X(name, version) decltype(&cu##name) name = nullptr;
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
