// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/device.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

constexpr const char* k_layer = "VK_LAYER_KHRONOS_validation";
constexpr const char* k_debug = "VK_EXT_debug_utils";
constexpr std::uint32_t k_local_size = 256;

std::atomic<int>& message_count() {
  static std::atomic<int> count{0};
  return count;
}

std::string version_text(std::uint32_t v) {
  return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v)) + "." +
         std::to_string(VK_API_VERSION_PATCH(v));
}

}  // namespace

int validation_messages() { return message_count(); }

bool has_validation_layer(const Functions& f) {
  std::uint32_t n = 0;
  if (f.EnumerateInstanceLayerProperties(&n, nullptr) != VK_SUCCESS) return false;
  std::vector<VkLayerProperties> layers(n);
  if (f.EnumerateInstanceLayerProperties(&n, layers.data()) != VK_SUCCESS) return false;
  return std::any_of(layers.begin(), layers.end(),
                     [](const VkLayerProperties& layer) { return std::strcmp(layer.layerName, k_layer) == 0; });
}

Device::Device(const Choice& choice, bool validates, std::uint32_t iterations) : f_(global_functions()) {
  try {
    make_instance(validates);
    choose(choice);
    find_queue();
    read_limits(iterations);
    make_device();
  } catch (...) {
    close();
    throw;
  }
}
Device::~Device() { close(); }

void Device::close() {
  if (process_.is_inherited()) return;  // the driver's threads, which it would wait for, are those of the parent
  if (device_) {
    f_.DeviceWaitIdle(device_);
    f_.DestroyDevice(device_, nullptr);
  }
  if (messenger_) f_.DestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  if (instance_) f_.DestroyInstance(instance_, nullptr);
}

VkBool32 VKAPI_PTR Device::take_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                        const VkDebugUtilsMessengerCallbackDataEXT* data, void* self) {
  auto& device = *static_cast<Device*>(self);
  ++message_count();
  std::fprintf(stderr, "validation: %s\n", data->pMessage);
  const std::lock_guard lock(device.mutex_);
  device.messages_.emplace_back(data->pMessage);
  return VK_FALSE;
}

void Device::make_instance(bool validates) {
  std::uint32_t version = 0;
  vulkan::check(f_.EnumerateInstanceVersion(&version), "vkEnumerateInstanceVersion");
  if (version < VK_API_VERSION_1_2)
    throw Error(ErrorKind::device, "vulkan", "the loader has version " + version_text(version) + "; 1.2 is needed");
  if (validates && !has_validation_layer(f_))
    throw Error(ErrorKind::device, "vulkan", std::string(k_layer) + " is not installed",
                "Install vulkan-validationlayers, or leave out the option validation");
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "unroll";
  application.apiVersion = VK_API_VERSION_1_2;
  VkDebugUtilsMessengerCreateInfoEXT messages{};
  messages.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messages.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = take_message;
  messages.pUserData = this;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  if (validates) {
    info.pNext = &messages;
    info.enabledLayerCount = info.enabledExtensionCount = 1;
    info.ppEnabledLayerNames = &k_layer;
    info.ppEnabledExtensionNames = &k_debug;
  }
  vulkan::check(f_.CreateInstance(&info, nullptr, &instance_), "vkCreateInstance");
  load_instance_functions(f_, instance_, validates);
  if (validates)
    vulkan::check(f_.CreateDebugUtilsMessengerEXT(instance_, &messages, nullptr, &messenger_),
                  "vkCreateDebugUtilsMessengerEXT");
}

void Device::choose(const Choice& choice) {
  const std::vector<Found> found = list_devices(f_, instance_);
  const std::size_t chosen = choose_device(found, choice);
  physical_ = found[chosen].device;
  by_default_ = choice.text.empty();
  for (std::size_t i = 0; i < found.size(); ++i)
    if (i != chosen) others_.push_back("vulkan:" + std::to_string(i) + " " + found[i].name);
}

void Device::find_queue() {
  std::uint32_t n = 0;
  f_.GetPhysicalDeviceQueueFamilyProperties(physical_, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  f_.GetPhysicalDeviceQueueFamilyProperties(physical_, &n, families.data());
  for (family_ = 0; family_ < n; ++family_)
    if (families[family_].queueFlags & VK_QUEUE_COMPUTE_BIT) {
      timestamp_bits_ = families[family_].timestampValidBits;
      return;
    }
  throw Error(ErrorKind::device, "vulkan", "the device has no queue that computes");
}

void Device::read_limits(std::uint32_t iterations) {
  VkPhysicalDeviceVulkan12Properties more{};
  more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  VkPhysicalDeviceMaintenance3Properties sizes{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, &more, 0, 0};
  VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &sizes, {}};
  f_.GetPhysicalDeviceProperties2(physical_, &all);
  const VkPhysicalDeviceProperties& p = all.properties;
  f_.GetPhysicalDeviceMemoryProperties(physical_, &memory_types_);
  limits_.name = p.deviceName;
  limits_.driver = std::string(more.driverName) + " " + more.driverInfo;
  limits_.api = p.apiVersion;
  limits_.vendor = p.vendorID, limits_.device = p.deviceID, limits_.driver_version = p.driverVersion;
  std::copy(std::begin(p.pipelineCacheUUID), std::end(p.pipelineCacheUUID), limits_.cache_id.begin());
  limits_.is_cpu = limits_.small_sizes = p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  limits_.range = p.limits.maxStorageBufferRange;
  limits_.alignment = std::max<std::size_t>(4, p.limits.minStorageBufferOffsetAlignment);
  limits_.buffers = std::min(p.limits.maxPerStageDescriptorStorageBuffers, p.limits.maxDescriptorSetStorageBuffers);
  limits_.local_size =
      std::min({k_local_size, p.limits.maxComputeWorkGroupInvocations, p.limits.maxComputeWorkGroupSize[0]});
  limits_.shared_bytes = p.limits.maxComputeSharedMemorySize;
  const std::uint32_t bits = timestamp_bits_;
  limits_.tick = bits == 0 ? 0 : double{p.limits.timestampPeriod};
  limits_.tick_mask = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  limits_.groups_x = p.limits.maxComputeWorkGroupCount[0];
  limits_.groups_y = p.limits.maxComputeWorkGroupCount[1];
  limits_.allocation = sizes.maxMemoryAllocationSize;
  limits_.preserve_nan = more.shaderSignedZeroInfNanPreserveFloat32 != 0;
  for (std::uint32_t h = 0; h < memory_types_.memoryHeapCount; ++h)
    if (memory_types_.memoryHeaps[h].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      limits_.memory = std::max<std::size_t>(limits_.memory, memory_types_.memoryHeaps[h].size);
  for (const DriverLimit& known : k_driver_limits)
    if (known.driver == more.driverID) limits_.iterations = known.iterations;
  if (iterations > 0) limits_.iterations = std::min(limits_.iterations, iterations);
}

void Device::make_device() {
  VkPhysicalDeviceVulkan11Features has_11{}, wanted_11{};
  has_11.sType = wanted_11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  VkPhysicalDeviceVulkan12Features has{};
  has.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  has.pNext = &has_11;
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &has, {}};
  f_.GetPhysicalDeviceFeatures2(physical_, &features);
  if (!has.timelineSemaphore)
    throw Error(ErrorKind::device, "vulkan", limits_.name + " has no timeline semaphores");
  VkPhysicalDeviceVulkan12Features wanted{};
  wanted.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  wanted.pNext = &wanted_11;
  wanted.timelineSemaphore = VK_TRUE;
  wanted_11.storageBuffer16BitAccess = has_11.storageBuffer16BitAccess;
  limits_.halves = has_11.storageBuffer16BitAccess != 0;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &wanted;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  VkDevice made = nullptr;
  vulkan::check(f_.CreateDevice(physical_, &info, nullptr, &made), "vkCreateDevice");
  load_device_functions(f_, made);
  device_ = made;
  f_.GetDeviceQueue(device_, family_, 0, &queue_);
}

void Device::check(VkResult result, const std::string& what) {
  if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
  vulkan::check(result, what);
}

void Device::require_sound() {
  if (process_.is_inherited())
    throw Error(ErrorKind::device, "vulkan", limits_.name + " cannot be used in a process that was forked later",
                "Open the backend in the child, or start processes by multiprocessing's method spawn");
  if (lost_)
    throw Error(ErrorKind::device, "vulkan", limits_.name + " was lost by an earlier call",
                "Open the backend again; training resumes from its last checkpoint");
  const std::lock_guard lock(mutex_);
  if (messages_.empty()) return;
  const std::string first = messages_.front();
  messages_.clear();
  throw Error(ErrorKind::internal, "vulkan", "the validation layer reports: " + first);
}

}  // namespace unroll::vulkan
