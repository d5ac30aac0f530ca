// SPDX-License-Identifier: Apache-2.0
// Prints an expression for a compiler.
#pragma once

#include <string>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"

namespace unroll::common {

// What goes once before the kernels of a file. In GLSL, where a file is one kernel, version and extensions too; b8 in
// buffers needs 8-bit storage, and a pipeline must ask for SignedZeroInfNanPreserve to get the reference's NaN.
std::string print_prelude(Dialect dialect);

// "const float v3 = v1 + v2;" for each constant and instruction: inputs are v0 .. , registers in order. For kernels
// that hold a pointwise part. Throws Error(unsupported) when the dialect lacks an op or a dtype.
std::string print_statements(const Expression& expression, Dialect dialect, const std::string& indent = "    ");

// A whole kernel. Each element is read before it is written, so a result may lie where an input of equal strides does.
//   C++   extern "C" void name(const T* x0, ..., T* y0, ..., long long begin, long long end): elements begin .. end-1
//   CUDA  extern "C" __global__ void name(const T* x0, ..., T* y0, ...): any grid of one dimension
//   GLSL  main, any number of workgroups of 256; storage buffers of set 0: inputs, then results, bindings from 0
std::string print_kernel(const Expression& expression, Dialect dialect, const std::string& name);

}  // namespace unroll::common
