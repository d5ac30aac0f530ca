// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/pipeline_file.h"

#include <cstring>

#include "backends/common/kernel_files.h"

namespace unroll::vulkan {

namespace {

constexpr const char* k_ending = ".vkpipeline";

template <class T>
void append(std::string& text, const T& number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string dependencies(const Limits& limits, const Words& shader, int buffers) {
  std::string text = "vulkan pipeline, " + limits.name + ", " + limits.driver + '\0';
  for (const std::uint32_t number : {limits.vendor, limits.device, limits.driver_version, limits.api,
                                     limits.push_words, static_cast<std::uint32_t>(buffers)})
    append(text, number);
  append(text, limits.cache_id);
  return text.append(reinterpret_cast<const char*>(shader.data()), shader.size() * sizeof(shader[0]));
}

}  // namespace

bool is_of_driver(std::string_view bytes, const Limits& limits) {
  VkPipelineCacheHeaderVersionOne head{};
  if (bytes.size() <= sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head.headerSize >= sizeof head && head.headerSize < bytes.size() &&
         head.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && head.vendorID == limits.vendor &&
         head.deviceID == limits.device &&
         std::memcmp(head.pipelineCacheUUID, limits.cache_id.data(), limits.cache_id.size()) == 0;
}

PipelineFile::PipelineFile(Device& device, const std::string& folder, const Words& shader, int buffers)
    : device_(device) {
  if (folder.empty()) return;
  depends_on_ = dependencies(device_.limits(), shader, buffers);
  path_ = common::kernel_path(folder, depends_on_, k_ending);
  kept_ = common::read_kernel(path_, depends_on_).bytes;
  if (!is_of_driver(kept_, device_.limits())) kept_.clear();
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = kept_.size();
  info.pInitialData = kept_.data();
  if (device_.f().CreatePipelineCache(device_.handle(), &info, nullptr, &cache_) != VK_SUCCESS) cache_ = VK_NULL_HANDLE;
}

PipelineFile::~PipelineFile() {
  if (cache_) device_.f().DestroyPipelineCache(device_.handle(), cache_, nullptr);
}

void PipelineFile::keep() const {
  if (!cache_) return;
  std::size_t size = 0;
  if (device_.f().GetPipelineCacheData(device_.handle(), cache_, &size, nullptr) != VK_SUCCESS) return;
  std::string made(size, '\0');
  if (device_.f().GetPipelineCacheData(device_.handle(), cache_, &size, made.data()) != VK_SUCCESS) return;
  made.resize(size);
  // Drivers that keep nothing give a head alone.
  if (made != kept_ && is_of_driver(made, device_.limits())) common::write_kernel(path_, depends_on_, made);
}

}  // namespace unroll::vulkan
