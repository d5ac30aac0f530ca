// SPDX-License-Identifier: Apache-2.0
// State that a backend, its buffers and its executables share. It lives as long as any of them.
#pragma once

#include <memory>

#include "backends/vulkan/device/pipelines.h"
#include "backends/vulkan/device/queue.h"
#include "backends/vulkan/kernels/kernels.h"

namespace unroll::vulkan {

// The form of loops: one kernel if a model predicts that it is faster, always steps, or one kernel if possible.
enum class Loops : std::uint8_t { automatic, steps, whole };

struct Context {
  // `cache`: the folder in which compiled shaders are kept; empty: nowhere.
  Context(const Choice& choice, bool validates, std::uint32_t iterations, Loops how = Loops::automatic,
          const std::string& cache = {})
      : loops(how),
        device(choice, validates, iterations),
        memory(device),
        pipelines(device, cache),
        queue(device, memory) {}
  Setting setting() const { return {device.limits().local_size, device.limits().preserve_nan}; }

  const Loops loops;
  // Destroyed from the last to the first.
  Device device;
  Memory memory;
  Pipelines pipelines;
  Queue queue;
};

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::shared_ptr<Context> context, std::size_t bytes)
      : context_(std::move(context)), bytes_(bytes), range_(context_->memory.allocate(bytes, Use::device)) {}
  ~DeviceBuffer() override { context_->memory.release(range_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::size_t bytes() const override { return bytes_; }
  const Range& range() const { return range_; }

 private:
  std::shared_ptr<Context> context_;
  std::size_t bytes_;
  Range range_;
};
// Throws Error(usage) for a buffer of another backend.
const DeviceBuffer& as_device(const Buffer& buffer);

}  // namespace unroll::vulkan
