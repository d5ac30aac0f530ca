// SPDX-License-Identifier: Apache-2.0
// Vector loops of reductions: contiguous elements to one, and rows added into a row.
#pragma once

#include <cstdint>

#include "unroll/ir/graph.h"

namespace unroll::cpu {

struct ReduceKernels {
  // *out = sum or largest of x[0 .. n); the order of adds depends on n only. n >= 1.
  void (*line)(const void* x, std::int64_t n, void* out);
  // to[i] = to[i] + rows[0][i] + rows[1][i] ..., or the largest, for i < n.
  void (*rows)(const void* const* rows, std::int64_t count, std::int64_t n, void* to);
};
const ReduceKernels& reduce_kernels(Op op, DType dtype);  // reduce_sum or reduce_max of f32, f64 or i32

}  // namespace unroll::cpu
