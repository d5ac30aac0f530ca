// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/gemm/window_rows.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/product_cut.h"

namespace unroll::cpu {

WindowRows::WindowRows(const Shape& shape, const common::Strides& strides, std::int64_t rows) : run_(1) {
  int split = 0;
  for (std::int64_t counted = 1; split < shape.rank() - 1 && counted < rows; ++split) counted *= shape[split];
  for (int axis = shape.rank() - 1; axis >= split; --axis) {
    const Axis own{shape[axis], strides[axis]};
    if (own.size == 1) continue;
    if (n_runs_ == 0 && own.stride == run_) run_ *= own.size;
    else runs_[n_runs_++] = own;
  }
  for (int axis = split - 1; axis >= 0; --axis)
    if (shape[axis] != 1) rows_[n_rows_++] = {shape[axis], strides[axis]};
}

std::int64_t WindowRows::offset_of(std::int64_t index, const Axes& axes, int n) {
  std::int64_t offset = 0;
  for (int i = 0; i < n; ++i) {
    offset += index % axes[i].size * axes[i].stride;
    index /= axes[i].size;
  }
  return offset;
}

void WindowRows::copy(DType from, DType to, const void* x, std::int64_t row, std::int64_t rows, std::int64_t column,
                      std::int64_t columns, void* y, std::int64_t y_stride) const {
  const std::int64_t from_bytes = cut::bytes_of(from), to_bytes = cut::bytes_of(to), end = column + columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* const source = cut::at(x, offset_of(row + r, rows_, n_rows_) * from_bytes);
    std::byte* target = cut::at(y, r * y_stride * to_bytes);
    for (std::int64_t c = column; c < end;) {
      const std::int64_t run = c / run_, n = std::min((run + 1) * run_, end) - c;
      const void* const part = cut::at(source, (offset_of(run, runs_, n_runs_) + c - run * run_) * from_bytes);
      if (from == to) std::memcpy(target, part, static_cast<std::size_t>(n * to_bytes));
      else cut::copy_rows(from, to, part, 0, 1, n, target, 0);
      target += n * to_bytes;
      c += n;
    }
  }
}

}  // namespace unroll::cpu
