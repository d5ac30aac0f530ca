// SPDX-License-Identifier: Apache-2.0
// Compiled kernels in a folder that processes share. Files are not trusted: a file must be complete and contain exactly
// the kernel's dependencies, so that a hash alone never decides.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace unroll::common {

// A stored kernel. Both are empty if the file is absent or belongs to another kernel.
struct KeptKernel {
  std::string bytes = {};
  std::string damage = {};  // reason for ignoring a file
};

// Returns the path of a kernel in `folder`: the hash of `depends_on` and an extension such as ".cubin".
std::string kernel_path(const std::string& folder, std::string_view depends_on, std::string_view ending);

KeptKernel read_kernel(const std::string& path, std::string_view depends_on);
// Reads a kernel from the contents of a file.
KeptKernel parse_kernel(std::string_view file, std::string_view depends_on);

// Writes a temporary file and renames it, because other processes may write the same kernel. Failures are ignored. The
// folder stays within k_largest_folder.
void write_kernel(const std::string& path, std::string_view depends_on, std::string_view bytes);

// As write_kernel, for contents that may differ between processes: the first process's bytes stay if `is_valid` accepts
// them. Returns the bytes that every process reads from then on; empty if none could be written.
std::string keep_first(const std::string& path, std::string_view depends_on, std::string_view bytes,
                       const std::function<bool(const std::string& bytes)>& is_valid);

inline constexpr std::uintmax_t k_largest_folder = std::uintmax_t{256} << 20;
// Removes the kernel files that were read or written longest ago until the others take at most `most_bytes`. Other
// files of the folder stay.
void trim_kernels(const std::string& folder, std::uintmax_t most_bytes);

}  // namespace unroll::common
