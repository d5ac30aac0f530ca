// SPDX-License-Identifier: Apache-2.0
// What the tests of products share, whatever the dtype of their operands.
#pragma once

#include <utility>

#include "tests/backends/cpu/cpu_kernel_test.h"

namespace unroll::cpu {

// [batch,rows,columns] as it lies in memory; without a batch if that is negative.
inline Type matrix(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed) {
  if (transposed) std::swap(rows, columns);
  return batch < 0 ? Type{dtype, {rows, columns}} : Type{dtype, {batch, rows, columns}};
}

// b [k, groups * group] packed by columns of each group must give the bits of `whole`, the product by all of b.
inline void check_packed_columns(const Matmul& mm, const void* a, const void* b, std::int64_t groups,
                                 const std::vector<float>& whole) {
  const std::int64_t group = mm.n / groups;
  for (const Range own : {Range{0, group}, Range{3, 20}, Range{group - 1, group}, Range{0, 32}}) {
    const std::int64_t width = own.end - own.begin;
    Matmul worker = mm;
    worker.n = worker.c_stride = groups * width;
    Bytes columns(packed_bytes(worker)), scratch(packed_scratch_bytes(worker));
    std::vector<float> c(static_cast<std::size_t>(mm.m * worker.n));
    run_pack_columns(mm, b, groups, own, columns.data());
    run_packed(worker, a, columns.data(), c.data(), Worker{}, scratch.data());
    int wrong = 0;
    for (std::int64_t i = 0; i < mm.m; ++i)
      for (std::int64_t j = 0; j < worker.n; ++j) {
        const std::int64_t column = j / width * group + own.begin + j % width;
        wrong += c[static_cast<std::size_t>(i * worker.n + j)] != whole[static_cast<std::size_t>(i * mm.n + column)];
      }
    CHECK(wrong == 0);
  }
}

}  // namespace unroll::cpu
