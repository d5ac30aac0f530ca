// SPDX-License-Identifier: Apache-2.0
// A CUDA device: its primary context, one stream on which all work is in order, memory, copies from and to the host.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver/functions.h"

namespace unroll::cuda {

struct Limits {
  std::string name;           // "NVIDIA H100 80GB HBM3"
  int arch = 0;               // compute capability: 90 for 9.0
  int multiprocessors = 1;
  int driver = 0;             // CUDA version of the driver: 13000
  int compiler = 0;           // of NVRTC
  std::size_t memory = 0;     // bytes
  bool has_pools = false;     // memory is allocated in the order of the stream
  std::size_t shared_bytes = 48 << 10;  // shared memory of a block at most, where its kernel asks for it
};

class Device {
 public:
  // Throws Error(device) if there is none of that index, or the driver is too old. With `turns`, indices beyond the
  // last device start again at the first.
  explicit Device(int index, bool turns = false);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Functions& f() const { return f_; }
  const Limits& limits() const { return limits_; }
  CUstream stream() const { return stream_; }
  // Each call of the backend begins with it: contexts belong to threads.
  void enter() const;
  void check(CUresult result, const std::string& what) const { cuda::check(f_, result, what); }
  void wait() const;
  // With several ranks, waits poll the device and call `watch` with the seconds since they began. It may throw, as the
  // device may wait for a lost rank.
  using Watch = std::function<void(double seconds)>;
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  // Freed memory may be handed out again at once: work on the stream is in order. `what`: for whom, in the plural.
  // Throws Error(memory), which says what holds the most.
  CUdeviceptr allocate(std::size_t bytes, const char* what = "buffers") const;
  void release(CUdeviceptr memory) const noexcept;
  void upload(CUdeviceptr to, std::span<const std::byte> from);
  void download(std::span<std::byte> to, CUdeviceptr from) const;

 private:
  // Uploads go through pinned memory in turn, so that they need not wait for the device.
  struct Staging {
    void* memory = nullptr;
    CUevent copied = nullptr;
    bool in_use = false;
  };
  struct Held {
    std::size_t bytes;
    const char* what;
  };
  std::string largest_held() const;
  void choose(int index, bool turns);
  void open();
  void close() noexcept;

  Functions f_;
  Limits limits_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::array<Staging, 2> staging_;
  std::size_t next_ = 0;
  mutable std::map<CUdeviceptr, Held> held_;
  Watch watch_;
};

}  // namespace unroll::cuda
