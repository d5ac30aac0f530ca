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

// What goes once before the kernels of a file. In GLSL, where a file is one kernel, version and extensions too; a
// pipeline must ask for SignedZeroInfNanPreserve to get the reference's NaN.
std::string print_prelude(Dialect dialect, const PrintOptions& options = {});

// Text that the caller of print_statements supplies.
struct Splice {
  std::function<std::string(std::size_t input)> load;  // what a register holds of it: load_of (print_parts.h)
  std::function<std::string(std::size_t result, const std::string& variable)> store;  // "y[e] = v3"
  // For draws and index values: the number of the element in row-major order, and a size, as text or where it is given
  // at run time. Empty: there are none.
  std::string element = {};
  std::function<std::string(std::int64_t)> size = [](std::int64_t n) { return std::to_string(n); };
};
// The expression of one element inside a kernel of the caller, such as the epilogue of a product: "const float v3 =
// v1 + v2;" for each input, constant and instruction, then the stores. Put it in a block of its own. Throws
// Error(unsupported) when the dialect lacks an op or a dtype.
std::string print_statements(const Expression& expression, Dialect dialect, const Splice& splice,
                             const std::string& indent = "    ");

// A whole kernel and its run-time sizes. Expressions that differ in extents, in strides other than 0 and the inner 1,
// or in axes that join or have size 1, have the same text, so the text is the key of a compiled kernel:
//   sizes[0]      elements
//   sizes[1 + k]  offset of operand k in elements, inputs before results: 0 here, the caller sets it
//   sizes[...]    extents and strides; of draws the stream and the count
// Each element is read before it is written, so a result may lie where an input of equal strides does. I is the type of
// indices (index_type).
//   C++   extern "C" void name(const T* x0, ..., T* y0, ..., const I* sizes, I begin, I end): elements begin .. end-1
//   CUDA  extern "C" __global__ void name(const T* x0, ..., T* y0, ..., name_sizes n), struct { I sizes[..]; }: any
//         grid of one dimension
//   GLSL  main, any number of workgroups of 256; storage buffers of set 0: inputs, then results, bindings from 0;
//         sizes are push constants, or if there are more than k_push_sizes the last buffer
// Throws Error(unsupported) when the dialect lacks an op, a dtype or indices of 64 bits, or the sizes need them.
struct PrintedKernel {
  std::string text;
  std::vector<std::int64_t> sizes;
  std::size_t scratch_bytes = 0;  // of row kernels, for each block: PrintOptions::most_shared_bytes
  std::size_t shared_bytes = 0;   // likewise, of arrays in shared memory
};
PrintedKernel print_kernel(const Expression& expression, Dialect dialect, const std::string& name,
                           const PrintOptions& options = {});

}  // namespace unroll::common
