// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/queue.h"

#include <algorithm>
#include <cstring>

#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

constexpr std::size_t k_chunk = std::size_t{8} << 20;     // of a copy through staging memory
constexpr std::size_t k_staged = std::size_t{64} << 20;   // uploads under way at most
// ns without a finished submission: the device hangs. A driver on the CPU compiles a shader in the first submission
// with it, which takes up to 14 s of one processor (an LSTM in f16 with its gradient), and shares the machine.
constexpr std::uint64_t k_timeout = 60'000'000'000, k_timeout_cpu = 20 * k_timeout;

}  // namespace

Queue::Queue(Device& device, Memory& memory) : device_(device), memory_(memory) {
  const Functions& f = device_.f();
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr,
                               VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, device_.family()};
  device_.check(f.CreateCommandPool(device_.handle(), &pool, nullptr, &pool_), "vkCreateCommandPool");
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, nullptr, VK_SEMAPHORE_TYPE_TIMELINE, 0};
  VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
  const VkResult made = f.CreateSemaphore(device_.handle(), &info, nullptr, &timeline_);
  if (made != VK_SUCCESS) f.DestroyCommandPool(device_.handle(), pool_, nullptr);
  device_.check(made, "vkCreateSemaphore");
}

Queue::~Queue() {
  const Functions& f = device_.f();
  f.DeviceWaitIdle(device_.handle());
  for (const Due& due : due_) due.release();
  f.DestroySemaphore(device_.handle(), timeline_, nullptr);
  f.DestroyCommandPool(device_.handle(), pool_, nullptr);
}

void Queue::barrier(VkCommandBuffer commands) const {
  constexpr VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  constexpr VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkAccessFlags reads = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
  const VkMemoryBarrier all{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, writes, writes | reads};
  device_.f().CmdPipelineBarrier(commands, stages, stages, 0, 1, &all, 0, nullptr, 0, nullptr);
}

void Queue::submit(std::span<const VkCommandBuffer> commands) {
  device_.require_sound();
  collect();
  const std::uint64_t next = submitted_ + 1;
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &next;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.commandBufferCount = static_cast<std::uint32_t>(commands.size());
  info.pCommandBuffers = commands.data();
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline_;
  device_.check(device_.f().QueueSubmit(device_.queue(), 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
  submitted_ = next;
}

std::uint64_t Queue::finished() {
  std::uint64_t done = 0;
  device_.check(device_.f().GetSemaphoreCounterValue(device_.handle(), timeline_, &done), "vkGetSemaphoreCounterValue");
  return done;
}

// A run may submit minutes of work; a device hangs only when none of it finishes.
void Queue::wait_for(std::uint64_t value) {
  const VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, nullptr, 0, 1, &timeline_, &value};
  const std::uint64_t timeout = device_.limits().is_cpu ? k_timeout_cpu : k_timeout;
  for (std::uint64_t before = finished();;) {
    const VkResult waited = device_.f().WaitSemaphores(device_.handle(), &info, timeout);
    if (waited != VK_TIMEOUT) return device_.check(waited, "waiting for the device");
    const std::uint64_t now = finished();
    if (now >= value) return;
    if (now == before) return device_.check(VK_TIMEOUT, "waiting for the device");
    before = now;
  }
}

void Queue::finish() { wait_for(submitted_); }

void Queue::wait() {
  device_.require_sound();
  wait_for(submitted_);
  collect();
  device_.require_sound();
}

void Queue::collect() {
  if (due_.empty()) return;
  const std::uint64_t done = finished();
  while (!due_.empty() && due_.front().value <= done) {
    const std::function<void()> release = std::move(due_.front().release);
    due_.pop_front();
    release();
  }
}

void Queue::after_work(std::function<void()> release) { due_.push_back({submitted_, std::move(release)}); }

VkCommandBuffer Queue::begin() {
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                   VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  VkCommandBuffer commands = nullptr;
  device_.check(device_.f().AllocateCommandBuffers(device_.handle(), &info, &commands), "vkAllocateCommandBuffers");
  VkCommandBufferBeginInfo once{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, nullptr};
  const VkResult begun = device_.f().BeginCommandBuffer(commands, &once);
  if (begun != VK_SUCCESS) device_.f().FreeCommandBuffers(device_.handle(), pool_, 1, &commands);
  device_.check(begun, "vkBeginCommandBuffer");
  barrier(commands);
  return commands;
}

void Queue::end(VkCommandBuffer commands) {
  const auto free = [this, commands] { device_.f().FreeCommandBuffers(device_.handle(), pool_, 1, &commands); };
  try {
    device_.check(device_.f().EndCommandBuffer(commands), "vkEndCommandBuffer");
    submit({&commands, 1});
  } catch (...) {
    free();
    throw;
  }
  after_work(free);
}

void Queue::copy(VkBuffer from, std::size_t from_at, VkBuffer to, std::size_t to_at, std::size_t bytes, bool to_host) {
  const VkCommandBuffer commands = begin();
  const VkBufferCopy region{from_at, to_at, bytes};
  device_.f().CmdCopyBuffer(commands, from, to, 1, &region);
  const VkMemoryBarrier visible{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                                VK_ACCESS_HOST_READ_BIT};
  if (to_host)
    device_.f().CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &visible,
                                   0, nullptr, 0, nullptr);
  end(commands);
}

void Queue::upload(const Range& range, std::size_t offset, std::span<const std::byte> from) {
  device_.require_sound();
  for (std::size_t at = 0; at < from.size(); at += k_chunk) {
    const std::size_t bytes = std::min(k_chunk, from.size() - at);
    if (staged_ + bytes > k_staged) wait();
    const Range staging = memory_.allocate(bytes, Use::host);
    std::memcpy(staging.block->mapped + staging.offset, from.data() + at, bytes);
    try {
      copy(staging.block->buffer, staging.offset, range.block->buffer, range.offset + offset + at, bytes, false);
    } catch (...) {
      memory_.release(staging);
      throw;
    }
    staged_ += bytes;
    after_work([this, staging, bytes] {
      memory_.release(staging);
      staged_ -= bytes;
    });
  }
}

void Queue::download(const Range& range, std::size_t offset, std::span<std::byte> to) {
  wait();
  for (std::size_t at = 0; at < to.size(); at += k_chunk) {
    const std::size_t bytes = std::min(k_chunk, to.size() - at);
    const Range staging = memory_.allocate(bytes, Use::host);
    try {
      copy(range.block->buffer, range.offset + offset + at, staging.block->buffer, staging.offset, bytes, true);
      wait();
    } catch (...) {
      after_work([this, staging] { memory_.release(staging); });
      throw;
    }
    std::memcpy(to.data() + at, staging.block->mapped + staging.offset, bytes);
    memory_.release(staging);
  }
}

}  // namespace unroll::vulkan
