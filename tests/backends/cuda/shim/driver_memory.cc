// SPDX-License-Identifier: Apache-2.0
// Memory of the device that the host is: allocations, copies and zeros.
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/backends/cuda/shim/driver_state.h"

using namespace unroll::shim;

namespace {

CUresult allocate(CUdeviceptr* at, std::size_t bytes) {
  Driver& d = driver();
  if (bytes == 0) return complain(CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
  if (d.used + bytes > setting("UNROLL_SHIM_MEMORY", std::size_t{4} << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(memory, 0xff, bytes);  // NaN
  d.used += bytes;
  d.memory.add(memory, bytes, Memory::Kind::global);
  *at = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult release(CUdeviceptr at) {
  Driver& d = driver();
  void* const memory = reinterpret_cast<void*>(at);
  const std::size_t bytes = d.memory.size_of(memory);
  if (bytes == 0) return complain(CUDA_ERROR_INVALID_VALUE, "freed memory that is not allocated");
  d.used -= bytes;
  d.memory.remove(memory);
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult copy(CUstream_st* stream, void* to, const void* from, std::size_t bytes, bool checks_to, bool checks_from) {
  return put(stream, [=] {
    const Memory& memory = driver().memory;
    if ((checks_to && !memory.contains(to, bytes)) || (checks_from && !memory.contains(from, bytes)))
      return complain(CUDA_ERROR_INVALID_VALUE, "a copy outside of allocated memory");
    std::memmove(to, from, bytes);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* at, size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemAlloc")) return r;
  return allocate(at, bytes);
}
CUresult cuMemFree(CUdeviceptr at) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemFree")) return r;
  for (CUstream_st* stream : driver().streams) finish(*stream);
  return release(at);
}
CUresult cuMemAllocAsync(CUdeviceptr* at, size_t bytes, CUstream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemAllocAsync")) return r;
  return allocate(at, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemFreeAsync")) return r;
  return put(stream, [at] { return release(at); });
}
CUresult cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemHostAlloc")) return r;
  *at = std::malloc(bytes);
  return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void* at) {
  std::free(at);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  return copy(stream, reinterpret_cast<void*>(to), from, bytes, true, false);
}
// To memory that is not pinned: the call returns when it is done.
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemcpyDtoHAsync")) return r;
  if (const CUresult r = copy(stream, to, reinterpret_cast<const void*>(from), bytes, false, true)) return r;
  return finish_without_ranks(*stream, "cuMemcpyDtoHAsync");
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  return copy(stream, reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, true, true);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  return put(stream, [=] {
    void* const at = reinterpret_cast<void*>(to);
    if (!driver().memory.contains(at, bytes)) return complain(CUDA_ERROR_INVALID_VALUE, "zeros outside of memory");
    std::memset(at, value, bytes);
    return CUDA_SUCCESS;
  });
}
