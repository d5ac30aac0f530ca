// SPDX-License-Identifier: Apache-2.0
// One opened device with one queue: instance, choice of the device, limits, messages of the validation layer.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/vulkan/device/functions.h"
#include "backends/vulkan/device/limits.h"
#include "core/support/process/forked.h"
#include "unroll/passes/backend.h"

namespace unroll::vulkan {

// The device that is wanted: an index, or a part of the name ("llvmpipe"). Without either: the first that is no CPU,
// discrete ones before integrated ones; a CPU device when there is no other.
struct Choice {
  std::string text = {};
};

class Device {
 public:
  // Throws Error(device) with what was found; Error(usage) never.
  Device(const Choice& choice, bool validates, std::uint32_t iterations);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Functions& f() const { return f_; }
  VkDevice handle() const { return device_; }
  VkQueue queue() const { return queue_; }
  std::uint32_t family() const { return family_; }
  const Limits& limits() const { return limits_; }
  void set_small_sizes(bool has) { limits_.small_sizes = has; }
  const VkPhysicalDeviceMemoryProperties& memory_types() const { return memory_types_; }
  bool chosen_by_default() const { return by_default_; }
  const std::vector<std::string>& others() const { return others_; }

  // Throws as vulkan::check; a lost device stays lost.
  void check(VkResult result, const std::string& what);
  // Throws Error(device) when the device was lost, Error(internal) with the first message of the validation layer.
  void require_sound();
  bool is_lost() const { return lost_; }

 private:
  void make_instance(bool validates);
  void choose(const Choice& choice);
  void find_queue();
  void read_limits(std::uint32_t iterations);
  void make_device();
  void close();
  static VkBool32 VKAPI_PTR take_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                         VkDebugUtilsMessageTypeFlagsEXT types,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data, void* self);

  const OfThisProcess process_;
  Functions f_;
  VkInstance instance_ = nullptr;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = nullptr;
  VkDevice device_ = nullptr;
  VkQueue queue_ = nullptr;
  std::uint32_t family_ = 0, timestamp_bits_ = 0;
  Limits limits_;
  VkPhysicalDeviceMemoryProperties memory_types_{};
  bool by_default_ = false, lost_ = false;
  std::vector<std::string> others_;
  std::mutex mutex_;
  std::vector<std::string> messages_;
};

// Messages of the validation layer in this process so far.
int validation_messages();
bool has_validation_layer(const Functions& functions);

// device_choice.cc
struct Found {
  VkPhysicalDevice device;
  std::string name;
  VkPhysicalDeviceType type;
  std::uint32_t api;
};
std::vector<Found> list_devices(const Functions& functions, VkInstance instance);
// Index in the list. Throws Error(device), which lists the devices.
std::size_t choose_device(const std::vector<Found>& found, const Choice& choice);

}  // namespace unroll::vulkan
