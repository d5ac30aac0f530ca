// SPDX-License-Identifier: Apache-2.0
// A matrix whose rows are windows: overlapping parts of an array that lies in memory once.
#pragma once

#include <array>
#include <cstdint>

#include "backends/common/strides.h"
#include "unroll/ir/graph.h"

namespace unroll::cpu {

class WindowRows {
 public:
  // An array read with these strides, the last one 1; its first axes count `rows`, the others the elements of a row.
  WindowRows(const Shape& shape, const common::Strides& strides, std::int64_t rows);

  // Copies elements [column, column + columns) of rows [row, row + rows); an element has `size` bytes.
  void copy(std::int64_t size, const void* x, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns, void* y, std::int64_t y_stride) const;

 private:
  struct Axis {
    std::int64_t size = 1, stride = 0;
  };
  using Axes = std::array<Axis, Shape::k_max_rank>;  // the last axis first
  static std::int64_t offset_of(std::int64_t index, const Axes& axes, int n);

  Axes rows_{}, runs_{};
  int n_rows_ = 0, n_runs_ = 0;
  std::int64_t run_ = 1;  // neighboring elements of a row
};

}  // namespace unroll::cpu
