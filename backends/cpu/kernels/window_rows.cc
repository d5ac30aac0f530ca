// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/window_rows.h"

#include <algorithm>
#include <cstring>

namespace unroll::cpu {

WindowRows::WindowRows(const Shape& shape, const common::Strides& strides, std::int64_t rows) {
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

void WindowRows::copy(std::int64_t size, const void* x, std::int64_t row, std::int64_t rows, std::int64_t column,
                      std::int64_t columns, void* y, std::int64_t y_stride) const {
  const std::int64_t end = column + columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* const source = static_cast<const std::byte*>(x) + offset_of(row + r, rows_, n_rows_) * size;
    std::byte* target = static_cast<std::byte*>(y) + r * y_stride * size;
    for (std::int64_t c = column; c < end;) {
      const std::int64_t run = c / run_, n = std::min((run + 1) * run_, end) - c;
      const std::int64_t offset = offset_of(run, runs_, n_runs_) + c - run * run_;
      std::memcpy(target, source + offset * size, n * size);
      target += n * size;
      c += n;
    }
  }
}

}  // namespace unroll::cpu
