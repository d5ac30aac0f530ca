// SPDX-License-Identifier: Apache-2.0
// Prints a row expression for a compiler.
#pragma once

#include <string>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"

namespace unroll::common {

// What goes once before the row kernels of a file, after print_prelude.
std::string print_row_prelude(Dialect dialect);

// A whole kernel; results overlap nothing. Values that other columns need, or that are needed after a reduction, are
// arrays of a row: on the stack in C++, else in memory that the threads of a row share.
//   C++   extern "C" void name(const T* x0, ..., T* y0, ..., long long begin, long long end): rows begin .. end-1
//   CUDA  extern "C" __global__ void name(const T* x0, ..., T* y0, ...): any grid of one dimension; a block of at most
//         1,024 threads shares a row
//   GLSL  main, any number of workgroups of 256, which share a row; buffers as in print_kernel
// Throws Error(unsupported) when the dialect lacks an op or a dtype.
std::string print_row_kernel(const Expression& expression, Dialect dialect, const std::string& name);

}  // namespace unroll::common
