// SPDX-License-Identifier: Apache-2.0
// Replaces the backend in builds without oneDNN's headers.
#include "backends/registry.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<BackendOption> onednn_options() { return {}; }

std::unique_ptr<Backend> make_onednn_backend(const BackendOptions&) {
  throw Error(ErrorKind::device, "onednn", "this build does not include oneDNN: its version 3 headers were not found",
              "Run .ci/setup or set the option onednn_root, then run meson setup --reconfigure and build again");
}

}  // namespace unroll
