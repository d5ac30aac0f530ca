// SPDX-License-Identifier: Apache-2.0
// The only place that names backends: each folder provides one function.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/passes/libraries.h"

namespace unroll {

std::unique_ptr<Backend> make_reference_backend(const BackendOptions& options);
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options);
std::unique_ptr<Backend> make_onednn_backend(const BackendOptions& options);
std::unique_ptr<Backend> make_vulkan_backend(const BackendOptions& options);
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);
std::unique_ptr<Backend> make_profile_backend(const std::string& name);  // "cuda:sm_90"

// The options of each backend by name; the others have none.
std::vector<BackendOption> cpu_options();
std::vector<BackendOption> onednn_options();
std::vector<BackendOption> vulkan_options();
std::vector<BackendOption> cuda_options();

// The libraries that each backend opens at run time.
std::vector<LibraryStatus> cuda_libraries();

}  // namespace unroll
