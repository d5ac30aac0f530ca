// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/device/functions.h"

#include <dlfcn.h>

#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

constexpr const char* k_library = "libvulkan.so.1";
constexpr const char* k_next =
    "Install the Vulkan loader (Debian: libvulkan1) and a driver (Debian: mesa-vulkan-drivers)";

Tamper& tamper() {
  static Tamper set = nullptr;
  return set;
}

PFN_vkGetInstanceProcAddr loader() {
  // Never closed: drivers keep threads of their own.
  static void* const handle = dlopen(k_library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error(ErrorKind::device, "vulkan", "the loader cannot be opened: no " + std::string(k_library), k_next);
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr"));
  if (!get) throw Error(ErrorKind::device, "vulkan", "the loader has no vkGetInstanceProcAddr", k_next);
  return get;
}

template <class F, class Get, class Owner>
void find(F& function, Get get, Owner owner, const char* name) {
  function = reinterpret_cast<F>(get(owner, name));
  if (!function)
    throw Error(ErrorKind::device, "vulkan", "the driver has no " + std::string(name), "Update the driver");
}

}  // namespace

void set_tamper(Tamper function) { tamper() = function; }

Functions global_functions() {
  Functions f;
#define X(name) find(f.name, loader(), VkInstance{}, "vk" #name);
  UNROLL_VULKAN_GLOBAL_FUNCTIONS(X)
#undef X
  if (tamper()) tamper()(f);
  return f;
}

void load_instance_functions(Functions& f, VkInstance instance, bool debug) {
#define X(name) find(f.name, loader(), instance, "vk" #name);
  UNROLL_VULKAN_INSTANCE_FUNCTIONS(X)
  if (debug) {
    UNROLL_VULKAN_DEBUG_FUNCTIONS(X)
  }
#undef X
  if (tamper()) tamper()(f);
}

void load_device_functions(Functions& f, VkDevice device) {
#define X(name) find(f.name, f.GetDeviceProcAddr, device, "vk" #name);
  UNROLL_VULKAN_DEVICE_FUNCTIONS(X)
#undef X
  if (tamper()) tamper()(f);
}

std::string result_name(VkResult result) {
  switch (result) {
    case VK_TIMEOUT: return "time-out";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case VK_ERROR_OUT_OF_POOL_MEMORY: return "out of pool memory";
    case VK_ERROR_FRAGMENTED_POOL: return "a fragmented pool";
    case VK_ERROR_DEVICE_LOST: return "device lost";
    case VK_ERROR_INITIALIZATION_FAILED: return "initialization failed";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no compatible driver";
    case VK_ERROR_LAYER_NOT_PRESENT: return "layer not present";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "extension not present";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "feature not present";
    default: return "error " + std::to_string(static_cast<int>(result));
  }
}

void check(VkResult result, const std::string& what) {
  if (result == VK_SUCCESS) return;
  const bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                      result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
  const bool driver = result == VK_ERROR_INCOMPATIBLE_DRIVER || result == VK_ERROR_INITIALIZATION_FAILED;
  throw Error(memory ? ErrorKind::memory : ErrorKind::device, "vulkan", what + " failed: " + result_name(result),
              memory   ? "Use a smaller batch or fewer steps, or close other programs on the device"
              : driver ? "Install a Vulkan driver (Debian: mesa-vulkan-drivers); VK_DRIVER_FILES and VK_ICD_FILENAMES, "
                         "if set, name the only ones that are tried"
                       : "Run again; `unroll doctor` tests the device");
}

}  // namespace unroll::vulkan
