// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/device.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "core/support/text/size_text.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

constexpr std::size_t k_staging_bytes = std::size_t{4} << 20;

}  // namespace

Device::Device(int index, bool turns) : f_(open_functions()) {
  try {
    choose(index, turns);
    open();
  } catch (...) {
    close();
    throw;
  }
}
Device::~Device() { close(); }

void Device::choose(int index, bool turns) {
  const CUresult started = f_.Init(0);
  if (started == CUDA_ERROR_NO_DEVICE || started == CUDA_ERROR_STUB_LIBRARY)
    throw Error(ErrorKind::device, "cuda",
                started == CUDA_ERROR_NO_DEVICE ? "no NVIDIA device was found"
                                                : "libcuda.so.1 is the stub of the toolkit, not a driver",
                "Check that nvidia-smi lists the device");
  check(started, "cuInit");
  check(f_.DriverGetVersion(&limits_.driver), "cuDriverGetVersion");
  if (limits_.driver < k_oldest_driver) refuse_driver(limits_.driver);
  int count = 0, major = 0, minor = 0;
  check(f_.DeviceGetCount(&count), "cuDeviceGetCount");
  if (turns && count > 0) index %= count;
  if (index < 0 || index >= count)
    throw Error(ErrorKind::device, "cuda",
                "there is no device " + std::to_string(index) + "; there are " + std::to_string(count),
                "Use an index from 0");
  check(f_.DeviceGet(&device_, index), "cuDeviceGet");
  char name[256] = {};
  check(f_.DeviceGetName(name, sizeof(name) - 1, device_), "cuDeviceGetName");
  limits_.name = name;
  const auto attribute = [&](CUdevice_attribute what) {
    int value = 0;
    check(f_.DeviceGetAttribute(&value, what, device_), "cuDeviceGetAttribute");
    return value;
  };
  major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  limits_.arch = major * 10 + minor;
  limits_.multiprocessors = std::max(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 1);
  limits_.shared_bytes = std::max(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), 48 << 10);
  limits_.has_pools = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
  check(f_.DeviceTotalMem(&limits_.memory, device_), "cuDeviceTotalMem");
  int compiler_major = 0, compiler_minor = 0;
  cuda::check(f_, f_.compiler.Version(&compiler_major, &compiler_minor), "nvrtcVersion");
  limits_.compiler = compiler_major * 1000 + compiler_minor * 10;
  if (compiler_major > limits_.driver / 1000)
    throw Error(ErrorKind::device, "cuda",
                "the driver has CUDA " + version_text(limits_.driver) + ", and does not load kernels of NVRTC " +
                    version_text(limits_.compiler),
                "Install a driver of CUDA " + std::to_string(compiler_major) + ", or NVRTC of CUDA " +
                    std::to_string(limits_.driver / 1000));
}

void Device::open() {
  check(f_.DevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  enter();
  check(f_.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  if (limits_.has_pools) {
    // Freed memory stays with the process.
    CUmemoryPool pool = nullptr;
    std::uint64_t kept = std::numeric_limits<std::uint64_t>::max();
    check(f_.DeviceGetDefaultMemPool(&pool, device_), "cuDeviceGetDefaultMemPool");
    check(f_.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept), "cuMemPoolSetAttribute");
  }
  for (Staging& each : staging_) {
    check(f_.MemHostAlloc(&each.memory, k_staging_bytes, 0), "cuMemHostAlloc");
    check(f_.EventCreate(&each.copied, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
}

void Device::close() noexcept {
  if (!context_) return;
  f_.CtxSetCurrent(context_);
  if (stream_) f_.StreamSynchronize(stream_);
  for (const Staging& each : staging_) {
    if (each.copied) f_.EventDestroy(each.copied);
    if (each.memory) f_.MemFreeHost(each.memory);
  }
  if (stream_) f_.StreamDestroy(stream_);
  f_.DevicePrimaryCtxRelease(device_);
}

void Device::enter() const { check(f_.CtxSetCurrent(context_), "cuCtxSetCurrent"); }

void Device::wait() const {
  constexpr auto k_nap = std::chrono::microseconds(20);
  constexpr double k_spin = 2e-4;  // seconds of polls without a pause
  if (!watch_) return check(f_.StreamSynchronize(stream_), "waiting for the device");
  const auto begin = std::chrono::steady_clock::now();
  for (CUresult state = CUDA_ERROR_NOT_READY; state == CUDA_ERROR_NOT_READY;) {
    state = f_.StreamQuery(stream_);
    if (state != CUDA_ERROR_NOT_READY) return check(state, "waiting for the device");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    watch_(seconds);
    if (seconds > k_spin) std::this_thread::sleep_for(k_nap);
  }
}

// "arenas of plans 812 MiB, buffers 64 MiB"
std::string Device::largest_held() const {
  std::map<std::string, std::size_t> sums;
  for (const auto& each : held_) sums[each.second.what] += each.second.bytes;
  std::vector<std::pair<std::size_t, std::string>> list;
  for (const auto& [what, bytes] : sums) list.emplace_back(bytes, what);
  std::sort(list.rbegin(), list.rend());
  std::string text;
  for (const auto& [bytes, what] : list) text += (text.empty() ? "" : ", ") + what + " " + size_text(bytes);
  return text.empty() ? "nothing" : text;
}

CUdeviceptr Device::allocate(std::size_t bytes, const char* what) const {
  CUdeviceptr memory = 0;
  const std::size_t n = std::max<std::size_t>(bytes, 1);
  const CUresult made = limits_.has_pools ? f_.MemAllocAsync(&memory, n, stream_) : f_.MemAlloc(&memory, n);
  if (made == CUDA_ERROR_OUT_OF_MEMORY)
    throw Error(ErrorKind::memory, "cuda",
                "the device has no " + size_text(n) + " for " + what + ". Of its " + size_text(limits_.memory) +
                    " this run holds: " + largest_held(),
                "Use a smaller batch or fewer steps, or close other programs on the device");
  check(made, "allocating " + size_text(n) + " for " + what);
  held_[memory] = {n, what};
  return memory;
}

void Device::release(CUdeviceptr memory) const noexcept {
  held_.erase(memory);
  if (memory == 0 || f_.CtxSetCurrent(context_) != CUDA_SUCCESS) return;
  if (limits_.has_pools) {
    f_.MemFreeAsync(memory, stream_);
    return;
  }
  f_.StreamSynchronize(stream_);
  f_.MemFree(memory);
}

void Device::upload(CUdeviceptr to, std::span<const std::byte> from) {
  for (std::size_t at = 0; at < from.size(); at += k_staging_bytes) {
    const std::size_t bytes = std::min(k_staging_bytes, from.size() - at);
    Staging& staging = staging_[next_++ % staging_.size()];
    if (staging.in_use && watch_) wait();
    else if (staging.in_use) check(f_.EventSynchronize(staging.copied), "waiting for an upload");
    staging.in_use = false;
    std::memcpy(staging.memory, from.data() + at, bytes);
    check(f_.MemcpyHtoDAsync(to + at, staging.memory, bytes, stream_), "an upload");
    check(f_.EventRecord(staging.copied, stream_), "cuEventRecord");
    staging.in_use = true;
  }
}

void Device::download(std::span<std::byte> to, CUdeviceptr from) const {
  if (watch_) wait();  // the copy waits, too, and without a limit
  if (!to.empty()) check(f_.MemcpyDtoHAsync(to.data(), from, to.size(), stream_), "a download");
  wait();
}

}  // namespace unroll::cuda
