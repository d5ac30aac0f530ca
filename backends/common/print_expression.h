// SPDX-License-Identifier: Apache-2.0
// Prints an expression for a compiler.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"
#include "backends/common/print_parts.h"

namespace unroll::common {

// Returns the text that precedes all kernels of a file.
std::string print_prelude(Dialect dialect);

// Text from the caller of print_statements.
struct Splice {
  std::function<std::string(std::size_t input)> load;  // register value of an input: load_of (print_parts.h)
  std::function<std::string(std::size_t result, const std::string& variable)> store;  // "y[e] = v3"
  // For draws and index values: the row-major element number, and a size, as literal text or as a run-time expression.
  // Empty: the expression has none.
  std::string element = {};
  std::function<std::string(std::int64_t)> size = [](std::int64_t n) { return std::to_string(n); };
};
// Prints the expression for one element inside a caller's kernel, such as the epilogue of a matmul. Prints "const float
// v3 = v1 + v2;" for each input, constant and instruction, then the stores. The caller encloses it in braces. Throws
// Error(unsupported) if the dialect lacks an op.
std::string print_statements(const Expression& expression, Dialect dialect, const Splice& splice,
                             const std::string& indent = "    ");

// A complete kernel and its run-time sizes. Expressions have the same text if they differ only in extents, in strides
// other than 0 and the inner 1, or in axes that join or have size 1. The text is therefore the key of a compiled
// kernel:
//   sizes[0]      elements
//   sizes[1 + k]  offset of operand k in elements, inputs before results: 0 here, the caller sets it
//   sizes[...]    extents and strides; for draws the stream and the count
// Each element is read before it is written, so a result may lie where an input of equal strides does. I is the type of
// indices (index_type).
//   C++   extern "C" void name(const T* x0, ..., T* y0, ..., const I* sizes, I begin, I end): elements begin .. end-1
//   CUDA  extern "C" __global__ void name(const T* x0, ..., T* y0, ..., name_sizes n), struct { I sizes[..]; }: any
//         grid of one dimension
// Throws Error(unsupported) if the dialect lacks an op, or the sizes need indices of 64 bits.
struct PrintedKernel {
  std::string text;
  std::vector<std::int64_t> sizes;
  std::size_t scratch_bytes = 0;  // of row kernels, per block: PrintOptions::most_shared_bytes
  std::size_t shared_bytes = 0;   // of row kernels: arrays in shared memory
};
PrintedKernel print_kernel(const Expression& expression, Dialect dialect, const std::string& name,
                           const PrintOptions& options = {});

}  // namespace unroll::common
