// SPDX-License-Identifier: Apache-2.0
// Device and staging memory: blocks with one VkBuffer each, from which ranges are taken first fit.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "backends/vulkan/device/device.h"

namespace unroll::vulkan {

enum class Use : std::uint8_t { device, host };  // host: mapped, for staging

struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::size_t bytes = 0;
  std::byte* mapped = nullptr;
  Use use = Use::device;
  std::uint64_t serial = 0;  // tells blocks apart whose VkBuffer has the same handle, one after the other
  std::map<std::size_t, std::size_t> free;  // offset -> bytes, apart and not touching
};

// Bytes [offset, offset + bytes) of a block.
struct Range {
  Block* block = nullptr;
  std::size_t offset = 0, bytes = 0;
};

// Work on a queue runs in order, and every submission begins with a barrier: a range that is given back may be handed
// out at once for device use. Staging is given back when its copy is complete (queue.h).
class Memory {
 public:
  explicit Memory(Device& device) : device_(device) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Offset and size are multiples of 256. Throws Error(memory) with the size.
  Range allocate(std::size_t bytes, Use use);
  void release(const Range& range) noexcept;
  std::size_t held_bytes() const;

 private:
  Block& make_block(std::size_t bytes, Use use);
  void destroy(Block& block) noexcept;
  std::uint32_t find_type(std::uint32_t allowed, Use use) const;

  Device& device_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::uint64_t serial_ = 0;
};

}  // namespace unroll::vulkan
