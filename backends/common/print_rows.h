// SPDX-License-Identifier: Apache-2.0
// Prints a row expression as CUDA C++.
#pragma once

#include <string>

#include "backends/common/dialect.h"
#include "backends/common/expression.h"
#include "backends/common/print_expression.h"
#include "backends/common/print_parts.h"

namespace unroll::common {

// A complete kernel and its run-time sizes; results overlap nothing. Values that other columns need, or that are needed
// after a reduction, are arrays of one row, in memory that the threads of a row share. An array exceeds the row by at
// most an eighth of the next power of two, or by 15 elements. Expressions with equal array sizes and equal widths in
// the same places have the same text. Constants are literals, so a mean has one text per number of columns. sizes[0] is
// the number of rows; the other sizes and I are those of print_kernel.
//   extern "C" __global__ void name(const T* x0, ..., T* y0, ..., name_sizes n)
// Grids have one dimension and any size; a block of at most 1,024 threads shares a row. With scratch_bytes, a parameter
// char* comes before n. Throws Error(unsupported) as print_kernel.
PrintedKernel print_row_kernel(const Expression& expression, const std::string& name, const PrintOptions& options = {});

}  // namespace unroll::common
