// SPDX-License-Identifier: Apache-2.0
// Shaders as pipelines, each made once per device and found again by its key. Their layouts differ only in the number
// of buffers: set 0 holds the buffers, binding 0 the parameters; 128 bytes of push constants.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/device/module.h"

namespace unroll::vulkan {

struct Layout {
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkPipelineLayout pipeline = VK_NULL_HANDLE;
  int buffers = 0;
};

struct Kernel {
  VkPipeline pipeline = VK_NULL_HANDLE;
  const Layout* layout = nullptr;
};

class Pipelines {
 public:
  // `folder`: where compiled shaders are kept between processes; empty: nowhere.
  Pipelines(Device& device, std::string folder) : device_(device), folder_(std::move(folder)) {}
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  // `make` writes the shader when the key is new. Throws Error(unsupported) when the device binds fewer buffers.
  const Kernel& get(const std::string& key, int buffers, const std::function<Words()>& make);
  std::size_t size() const { return kernels_.size(); }

 private:
  const Layout& layout(int buffers);

  Device& device_;
  std::string folder_;
  std::map<int, Layout> layouts_;
  std::map<std::string, Kernel> kernels_;
};

}  // namespace unroll::vulkan
