// SPDX-License-Identifier: Apache-2.0
// Stands in when the build leaves Vulkan out.
#include "backends/registry.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<BackendOption> vulkan_options() { return {}; }

std::unique_ptr<Backend> make_vulkan_backend(const BackendOptions&) {
  throw Error(ErrorKind::device, "vulkan", "this build does not include Vulkan",
              "Install libvulkan-dev, then configure a new build folder with -Dvulkan=enabled");
}

}  // namespace unroll
