// SPDX-License-Identifier: Apache-2.0
// Compiled shaders in files. A file is outside input: the driver gets it only if it is whole, of exactly this shader,
// device and driver (kernel_files.h), and begins with the driver's own marks.
#pragma once

#include <string>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/device/module.h"

namespace unroll::vulkan {

class PipelineFile {
 public:
  // Opens a cache of the driver with what the folder holds of the shader. Without a folder, or where the driver makes
  // no cache, there is none: the shader is then compiled.
  PipelineFile(Device& device, const std::string& folder, const Words& shader, int buffers);
  ~PipelineFile();
  PipelineFile(const PipelineFile&) = delete;
  PipelineFile& operator=(const PipelineFile&) = delete;
  VkPipelineCache cache() const { return cache_; }
  // Writes what the driver made, unless the file holds it. Nothing happens where that fails.
  void keep() const;

 private:
  Device& device_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::string depends_on_, path_, kept_;
};

// True if bytes begin as the driver of a device with these limits begins the data of its caches, and have more.
bool is_of_driver(std::string_view bytes, const Limits& limits);

}  // namespace unroll::vulkan
