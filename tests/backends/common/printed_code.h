// SPDX-License-Identifier: Apache-2.0
// Compilers of this machine on printed code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/print_expression.h"

namespace unroll::testing {

// Found when the build was set up; empty when absent.
struct Compilers {
  std::string cpp, cuda;
};
const Compilers& compilers();

// Says on stdout that a test is skipped without the compiler.
bool have(const std::string& compiler, const std::string& what);

// What C++ needs to be told to take another dialect's functions for its own: CUDA C++ as one thread of one block.
std::string_view shim(common::Dialect dialect);

// A printed kernel as a C++ function for all dialects. Sizes are in the type of indices of the kernel; begin and end
// matter for C++ only.
using PrintedFunction = void (*)(void* const* inputs, void* const* results, const void* sizes, long long n);
std::string as_function(const common::Expression& expression, common::Dialect dialect, const std::string& name,
                        const common::PrintedKernel& kernel, const common::PrintOptions& options);
// Sizes in the kernel's type of indices, with an offset for each operand.
std::vector<std::byte> packed_sizes(std::vector<std::int64_t> sizes, const common::PrintOptions& options,
                                    const std::vector<std::int64_t>& offsets);

// Messages of the compiler of CUDA C++; empty if it accepts the source.
std::string failure_of_cuda(const std::string& source);

// C++ sources compiled, two at a time, into shared libraries that stay loaded while the object lives.
class PrintedCode {
 public:
  PrintedCode(const std::string& folder, const std::vector<std::string>& sources, const std::string& options);
  PrintedCode(const PrintedCode&) = delete;
  PrintedCode& operator=(const PrintedCode&) = delete;
  ~PrintedCode();
  const std::string& failure() const { return failure_; }
  // Null when there is none.
  void* find(const std::string& name) const;

 private:
  std::vector<void*> libraries_;
  std::string failure_;
};

}  // namespace unroll::testing
