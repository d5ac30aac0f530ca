// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/pipelines.h"

#include <algorithm>
#include <vector>

#include "backends/vulkan/device/pipeline_file.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

Pipelines::~Pipelines() {
  const Functions& f = device_.f();
  for (const auto& [key, kernel] : kernels_) f.DestroyPipeline(device_.handle(), kernel.pipeline, nullptr);
  for (const auto& [buffers, layout] : layouts_) {
    if (layout.pipeline) f.DestroyPipelineLayout(device_.handle(), layout.pipeline, nullptr);
    if (layout.set) f.DestroyDescriptorSetLayout(device_.handle(), layout.set, nullptr);
  }
}

const Layout& Pipelines::layout(int buffers) {
  Layout& layout = layouts_[buffers];
  if (layout.pipeline) return layout;
  const Functions& f = device_.f();
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (int b = 0; b < buffers; ++b)
    bindings.push_back({static_cast<std::uint32_t>(b), VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                        VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  VkDescriptorSetLayoutCreateInfo set{};
  set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set.bindingCount = static_cast<std::uint32_t>(bindings.size());
  set.pBindings = bindings.data();
  if (!layout.set)
    device_.check(f.CreateDescriptorSetLayout(device_.handle(), &set, nullptr, &layout.set),
                  "vkCreateDescriptorSetLayout");
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, device_.limits().push_words * 4};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.setLayoutCount = 1;
  info.pSetLayouts = &layout.set;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &push;
  device_.check(f.CreatePipelineLayout(device_.handle(), &info, nullptr, &layout.pipeline), "vkCreatePipelineLayout");
  layout.buffers = buffers;
  return layout;
}

const Kernel& Pipelines::get(const std::string& key, int buffers, const std::function<Words()>& make) {
  if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  const auto& limits = device_.limits();
  const std::uint32_t most = std::min(limits.buffers, limits.push_words);
  if (static_cast<std::uint32_t>(buffers) > most)
    throw Error(ErrorKind::unsupported, "vulkan",
                "a kernel with " + std::to_string(buffers) + " buffers; the device binds " + std::to_string(most));
  const Functions& f = device_.f();
  const Layout& shape = layout(buffers);
  const Words words = make();
  VkShaderModuleCreateInfo code{};
  code.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  code.codeSize = words.size() * sizeof(std::uint32_t);
  code.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  device_.check(f.CreateShaderModule(device_.handle(), &code, nullptr, &module), "vkCreateShaderModule");
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = shape.pipeline;
  Kernel kernel{VK_NULL_HANDLE, &shape};
  PipelineFile file(device_, folder_, words, buffers);
  const VkResult made = f.CreateComputePipelines(device_.handle(), file.cache(), 1, &info, nullptr, &kernel.pipeline);
  if (made == VK_SUCCESS) file.keep();
  f.DestroyShaderModule(device_.handle(), module, nullptr);
  device_.check(made, "compiling a shader");
  return kernels_.emplace(key, kernel).first->second;
}

}  // namespace unroll::vulkan
