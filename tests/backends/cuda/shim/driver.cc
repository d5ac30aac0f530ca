// SPDX-License-Identifier: Apache-2.0
// The entry points of libcuda.so.1, for tests without a device: memory is that of the host, kernels are functions that
// g++ compiled (compiler.cc). Work on a stream is done late, when somebody waits for it. Calls that a device would
// refuse are errors here, with a line on stderr; kernels are checked (races.h). Only what the backend calls is there:
// here the device and its context, beside it memory, streams with graphs, and launches (driver_*.cc).
//
// Environment: UNROLL_SHIM_DRIVER, the CUDA version of the driver; UNROLL_SHIM_ARCH; UNROLL_SHIM_MEMORY, bytes;
// UNROLL_SHIM_FAULT, the number of the launch that fails; UNROLL_SHIM_MULTIPROCESSORS; UNROLL_SHIM_SHARED, bytes that a
// block may ask for.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "backends/cuda/driver/functions.h"
#include "tests/backends/cuda/shim/driver_state.h"

namespace unroll::shim {

// Never destroyed: the backend's own statics may outlive those of this library.
Driver& driver() {
  static Driver* const all = new Driver;
  return *all;
}
namespace {
thread_local CUcontext current = nullptr;
}  // namespace

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

int multiprocessors() { return static_cast<int>(setting("UNROLL_SHIM_MULTIPROCESSORS", 2)); }
std::size_t most_shared_bytes() { return setting("UNROLL_SHIM_SHARED", 227 << 10); }

CUresult complain(CUresult result, const std::string& what) {
  std::fprintf(stderr, "cuda shim: %s\n", what.c_str());
  return result;
}

CUresult ready() {
  if (driver().broken != CUDA_SUCCESS) return driver().broken;
  return current ? CUDA_SUCCESS : complain(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
}
CUresult ready_outside_capture(const char* what) {
  for (const CUstream_st* stream : driver().streams)
    if (stream->captures && (stream->capturing == std::thread::id() || stream->capturing == std::this_thread::get_id()))
      return complain(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, std::string(what) + " while a stream captures");
  return ready();
}

}  // namespace unroll::shim

using namespace unroll::shim;

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("UNROLL_SHIM_DRIVER", 13000));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* n) {
  *n = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = 0;
  return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int n, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(n), "CUDA shim on the host");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute what, CUdevice) {
  const auto arch = static_cast<int>(setting("UNROLL_SHIM_ARCH", 90));
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = multiprocessors(); break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(most_shared_bytes());
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    default: return complain(CUDA_ERROR_INVALID_VALUE, "an attribute that the shim lacks");
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = setting("UNROLL_SHIM_MEMORY", std::size_t{4} << 30);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ++driver().context.retained;
  *context = &driver().context;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  const int left = --driver().context.retained;
  if (left == 0) driver().broken = CUDA_SUCCESS;
  return left >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return driver().broken;
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  *pool = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }

CUresult cuGetErrorName(CUresult result, const char** name) {
  switch (result) {
    case CUDA_SUCCESS: *name = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    default: *name = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetProcAddress(const char* symbol, void** entry, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  *entry = nullptr;
#define X(name, version) \
  if (std::strcmp(symbol, "cu" #name) == 0) *entry = reinterpret_cast<void*>(&cu##name);
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
  return *entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
