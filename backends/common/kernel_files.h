// SPDX-License-Identifier: Apache-2.0
// Compiled kernels in a folder, between processes. What is read is not trusted: a file must be whole, and of exactly
// what the kernel depends on. It holds all of that, so that a hash is never trusted alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace unroll::common {

// A kernel that was kept. Without one both are empty: there is no file, or it is of something else.
struct KeptKernel {
  std::string bytes = {};
  std::string damage = {};  // why a file is ignored
};

// The path in `folder` for a kernel: `depends_on` as a hash, and an ending such as ".cubin".
std::string kernel_path(const std::string& folder, std::string_view depends_on, std::string_view ending);

KeptKernel read_kernel(const std::string& path, std::string_view depends_on);
// The same of a file's contents.
KeptKernel parse_kernel(std::string_view file, std::string_view depends_on);

// Another process may write the same file: each writes its own and renames it. Nothing happens where that fails.
// The folder stays within k_largest_folder.
void write_kernel(const std::string& path, std::string_view depends_on, std::string_view bytes);

// As write_kernel, for what two processes may make differently: the bytes of the first process stay if `is_valid`
// accepts them. Returns those that every process reads from then on; empty: none could be written.
std::string keep_first(const std::string& path, std::string_view depends_on, std::string_view bytes,
                       const std::function<bool(const std::string& bytes)>& is_valid);

inline constexpr std::uintmax_t k_largest_folder = std::uintmax_t{256} << 20;
// Removes the files of kernels that were read or written longest ago until the others take at most so many bytes.
// Other files of the folder stay.
void trim_kernels(const std::string& folder, std::uintmax_t most_bytes);

}  // namespace unroll::common
