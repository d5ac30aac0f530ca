// SPDX-License-Identifier: Apache-2.0
// Vulkan's entry points in one table, found at run time. The table is where tests let calls fail.
#pragma once

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include <string>

namespace unroll::vulkan {

#define UNROLL_VULKAN_GLOBAL_FUNCTIONS(X) \
  X(CreateInstance) X(EnumerateInstanceVersion) X(EnumerateInstanceLayerProperties) \
  X(EnumerateInstanceExtensionProperties)
#define UNROLL_VULKAN_INSTANCE_FUNCTIONS(X)                                                                        \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceFeatures2)     \
  X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceQueueFamilyProperties) X(CreateDevice) X(GetDeviceProcAddr)
#define UNROLL_VULKAN_DEVICE_FUNCTIONS(X)                                                                          \
  X(DestroyDevice) X(DeviceWaitIdle) X(GetDeviceQueue) X(QueueSubmit) X(CreateSemaphore) X(DestroySemaphore)       \
  X(WaitSemaphores) X(GetSemaphoreCounterValue) X(AllocateMemory) X(FreeMemory) X(MapMemory) X(CreateBuffer)       \
  X(DestroyBuffer) X(GetBufferMemoryRequirements) X(BindBufferMemory) X(CreateCommandPool) X(DestroyCommandPool)   \
  X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdCopyBuffer)       \
  X(CmdPipelineBarrier) X(CmdBindPipeline) X(CmdBindDescriptorSets) X(CmdPushConstants) X(CmdDispatch)             \
  X(CreateShaderModule) X(DestroyShaderModule) X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout)          \
  X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateComputePipelines) X(DestroyPipeline)                    \
  X(CreatePipelineCache) X(DestroyPipelineCache) X(GetPipelineCacheData)                                             \
  X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets)               \
  X(CreateQueryPool) X(DestroyQueryPool) X(CmdResetQueryPool) X(CmdWriteTimestamp) X(GetQueryPoolResults)
// Functions of the extension VK_EXT_debug_utils, for validation; null without it.
#define UNROLL_VULKAN_DEBUG_FUNCTIONS(X) X(CreateDebugUtilsMessengerEXT) X(DestroyDebugUtilsMessengerEXT)

#define UNROLL_VULKAN_FUNCTIONS(X)  \
  UNROLL_VULKAN_GLOBAL_FUNCTIONS(X) \
  UNROLL_VULKAN_INSTANCE_FUNCTIONS(X) UNROLL_VULKAN_DEVICE_FUNCTIONS(X) UNROLL_VULKAN_DEBUG_FUNCTIONS(X)

// The entry points vk<name>.
struct Functions {
#define X(name) PFN_vk##name name = nullptr;
  UNROLL_VULKAN_FUNCTIONS(X)
#undef X
};

// Changes entries of a table that was just filled; null: none. Tests set it to let calls fail.
using Tamper = void (*)(Functions& functions);
void set_tamper(Tamper tamper);

// Opens the loader on the first call and keeps it. Throws Error(device) with the reason when it is not there.
Functions global_functions();
void load_instance_functions(Functions& functions, VkInstance instance, bool debug);
void load_device_functions(Functions& functions, VkDevice device);

// Throws Error(memory) when memory is exhausted, else Error(device), naming what failed.
void check(VkResult result, const std::string& what);
std::string result_name(VkResult result);

}  // namespace unroll::vulkan
