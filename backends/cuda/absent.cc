// SPDX-License-Identifier: Apache-2.0
// Stands in when the build leaves CUDA out.
#include "backends/registry.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<BackendOption> cuda_options() { return {}; }
std::vector<LibraryStatus> cuda_libraries() { return {}; }

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions&) {
  throw Error(ErrorKind::device, "cuda", "this build does not include CUDA",
              "Install the headers of CUDA 12 or 13 (cuda-cudart-dev and cuda-nvrtc-dev), then run meson setup "
              "--reconfigure -Dcuda=enabled and build again");
}

}  // namespace unroll
