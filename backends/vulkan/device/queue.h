// SPDX-License-Identifier: Apache-2.0
// Submissions in order on the device's only queue, counted by a timeline semaphore; copies from and to the host.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "backends/vulkan/device/memory.h"

namespace unroll::vulkan {

class Queue {
 public:
  Queue(Device& device, Memory& memory);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Each command buffer begins with barrier(): all it does comes after all that was submitted before.
  void submit(std::span<const VkCommandBuffer> commands);
  void wait();    // until all submitted work is complete
  void finish();  // likewise; leaves messages of the validation layer to the next call
  void upload(const Range& range, std::size_t offset, std::span<const std::byte> from);
  void download(const Range& range, std::size_t offset, std::span<std::byte> to);

  // Calls `release` once all work submitted so far is complete; it must not throw.
  void after_work(std::function<void()> release);
  VkCommandPool pool() const { return pool_; }
  void barrier(VkCommandBuffer commands) const;  // all writes before, to all reads and writes after

 private:
  void collect();  // calls what is due
  std::uint64_t finished();  // submissions
  void wait_for(std::uint64_t value);  // throws Error(device) when none finishes for a minute
  VkCommandBuffer begin();
  void end(VkCommandBuffer commands);  // submits, and frees it when it is complete
  void copy(VkBuffer from, std::size_t from_at, VkBuffer to, std::size_t to_at, std::size_t bytes, bool to_host);

  struct Due {
    std::uint64_t value;
    std::function<void()> release;
  };
  Device& device_;
  Memory& memory_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::uint64_t submitted_ = 0;
  std::size_t staged_ = 0;  // bytes of uploads under way
  std::deque<Due> due_;
};

}  // namespace unroll::vulkan
