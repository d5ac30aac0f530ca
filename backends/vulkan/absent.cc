// SPDX-License-Identifier: Apache-2.0
// Stands in when Vulkan's headers were not there at build time.
#include "backends/registry.h"
#include "unroll/error.h"

namespace unroll {

std::vector<BackendOption> vulkan_options() { return {}; }

std::unique_ptr<Backend> make_vulkan_backend(const BackendOptions&) {
  throw Error(ErrorKind::device, "vulkan", "this build does not include Vulkan: its version 1.2 headers were not found",
              "Install libvulkan-dev, then run meson setup --reconfigure and build again");
}

}  // namespace unroll
