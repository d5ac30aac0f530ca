// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "backends/vulkan/device/device.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

constexpr std::uint32_t k_least_api = VK_API_VERSION_1_2;

int preference(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 4;
    default: return 3;
  }
}

std::string listed(const std::vector<Found>& found) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::string("vulkan:") + std::to_string(i) + " " + found[i].name;
  return text.empty() ? "there is none" : text;
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

std::vector<Found> list_devices(const Functions& f, VkInstance instance) {
  std::uint32_t n = 0;
  check(f.EnumeratePhysicalDevices(instance, &n, nullptr), "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> devices(n);
  if (n > 0) check(f.EnumeratePhysicalDevices(instance, &n, devices.data()), "vkEnumeratePhysicalDevices");
  std::vector<Found> found;
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, nullptr, {}};
    f.GetPhysicalDeviceProperties2(device, &properties);
    const VkPhysicalDeviceProperties& p = properties.properties;
    found.push_back({device, p.deviceName, p.deviceType, p.apiVersion});
  }
  return found;
}

std::size_t choose_device(const std::vector<Found>& found, const Choice& choice) {
  const std::string wanted = lower_case(choice.text);
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::device, "vulkan", what + "; devices: " + listed(found),
                found.empty() ? "Install a Vulkan driver (Debian: mesa-vulkan-drivers)"
                              : "Name one by its number or a part of its name");
  };
  if (found.empty()) fail("no device");
  std::size_t best = found.size();
  std::size_t index = 0;
  const auto end = wanted.data() + wanted.size();
  const bool is_number = !wanted.empty() && std::from_chars(wanted.data(), end, index).ptr == end;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool matches = is_number ? i == index : lower_case(found[i].name).find(wanted) != std::string::npos;
    if (!matches) continue;
    if (best == found.size() || preference(found[i].type) < preference(found[best].type)) best = i;
  }
  if (best == found.size()) fail("no device '" + choice.text + "'");
  if (found[best].api < k_least_api) fail(found[best].name + " has no Vulkan 1.2");
  return best;
}

}  // namespace unroll::vulkan
