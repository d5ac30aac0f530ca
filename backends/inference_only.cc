// SPDX-License-Identifier: Apache-2.0
// Replaces the backends that an inference-only build omits.
#include "backends/registry.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorKind::device, "make_backend", "this build is for inference only and has one backend, cpu",
              "Use it, or run meson setup --reconfigure -Dinference_only=false and build again");
}

}  // namespace

std::unique_ptr<Backend> make_reference_backend(const BackendOptions&) { refuse(); }
std::unique_ptr<Backend> make_onednn_backend(const BackendOptions&) { refuse(); }
std::unique_ptr<Backend> make_vulkan_backend(const BackendOptions&) { refuse(); }
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&) { refuse(); }
std::unique_ptr<Backend> make_profile_backend(const std::string&) { refuse(); }
std::vector<BackendOption> onednn_options() { return {}; }
std::vector<BackendOption> vulkan_options() { return {}; }
std::vector<BackendOption> cuda_options() { return {}; }
std::vector<LibraryStatus> cuda_libraries() { return {}; }
std::vector<BackendStatus> list_profiles() { return {}; }

}  // namespace unroll
