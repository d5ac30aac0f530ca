// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/memory.h"

#include <algorithm>
#include <iterator>

#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

constexpr std::size_t k_unit = 256;
constexpr std::size_t k_block_bytes = std::size_t{32} << 20;  // larger ranges get a block of their own

std::size_t rounded(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + k_unit - 1) / k_unit * k_unit; }

}  // namespace

Memory::~Memory() {
  for (const auto& block : blocks_) destroy(*block);
}

void Memory::destroy(Block& block) noexcept {
  if (block.buffer) device_.f().DestroyBuffer(device_.handle(), block.buffer, nullptr);
  if (block.memory) device_.f().FreeMemory(device_.handle(), block.memory, nullptr);
}

// The first type that has all wanted properties, else the first with the needed ones.
std::uint32_t Memory::find_type(std::uint32_t allowed, Use use) const {
  const VkPhysicalDeviceMemoryProperties& types = device_.memory_types();
  const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkMemoryPropertyFlags needed = use == Use::host ? visible : 0;
  const VkMemoryPropertyFlags wanted =
      needed | (use == Use::host ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  for (const VkMemoryPropertyFlags flags : {wanted, needed})
    for (std::uint32_t i = 0; i < types.memoryTypeCount; ++i)
      if ((allowed >> i & 1) && (types.memoryTypes[i].propertyFlags & flags) == flags) return i;
  throw Error(ErrorKind::device, "vulkan", "the device has no memory that suits");
}

Block& Memory::make_block(std::size_t bytes, Use use) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->use = use;
  block->serial = ++serial_;
  const Functions& f = device_.f();
  try {
    VkBufferCreateInfo buffer{};
    buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    buffer.size = bytes;
    buffer.usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    buffer.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    device_.check(f.CreateBuffer(device_.handle(), &buffer, nullptr, &block->buffer), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    f.GetBufferMemoryRequirements(device_.handle(), block->buffer, &needs);
    VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size,
                              find_type(needs.memoryTypeBits, use)};
    device_.check(f.AllocateMemory(device_.handle(), &info, nullptr, &block->memory),
                  "allocating " + std::to_string(bytes >> 20) + " MiB");
    device_.check(f.BindBufferMemory(device_.handle(), block->buffer, block->memory, 0), "vkBindBufferMemory");
    if (use == Use::host) {
      void* at = nullptr;
      device_.check(f.MapMemory(device_.handle(), block->memory, 0, VK_WHOLE_SIZE, 0, &at), "vkMapMemory");
      block->mapped = static_cast<std::byte*>(at);
    }
  } catch (...) {
    destroy(*block);
    throw;
  }
  block->free[0] = bytes;
  blocks_.push_back(std::move(block));
  return *blocks_.back();
}

Range Memory::allocate(std::size_t n_bytes, Use use) {
  const std::size_t bytes = rounded(n_bytes);
  if (device_.limits().allocation > 0 && bytes > device_.limits().allocation)
    throw Error(ErrorKind::memory, "vulkan",
                "a buffer of " + std::to_string(bytes >> 20) + " MiB; the device allocates at most " +
                    std::to_string(device_.limits().allocation >> 20) + " MiB at once",
                "Use a smaller batch or fewer steps");
  const auto take = [&](Block& block) -> Range {
    for (auto at = block.free.begin(); at != block.free.end(); ++at) {
      const auto [offset, size] = *at;
      if (size < bytes) continue;
      block.free.erase(at);
      if (size > bytes) block.free[offset + bytes] = size - bytes;
      return {&block, offset, bytes};
    }
    return {};
  };
  for (const auto& block : blocks_)
    if (block->use == use)
      if (const Range range = take(*block); range.block) return range;
  return take(make_block(bytes > k_block_bytes / 4 ? bytes : k_block_bytes, use));
}

void Memory::release(const Range& range) noexcept {
  if (!range.block) return;
  auto& free = range.block->free;
  auto at = free.emplace(range.offset, range.bytes).first;
  if (const auto next = std::next(at); next != free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free.erase(next);
  }
  if (at != free.begin())
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free.erase(at);
      at = before;
    }
  // A block of one large range goes back to the device.
  if (at->second != range.block->bytes || range.block->bytes == k_block_bytes) return;
  device_.f().DeviceWaitIdle(device_.handle());
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const auto& candidate) { return candidate.get() == range.block; });
  destroy(**block);
  blocks_.erase(block);
}

std::size_t Memory::held_bytes() const {
  std::size_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->bytes;
  return bytes;
}

}  // namespace unroll::vulkan
