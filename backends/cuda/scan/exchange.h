// SPDX-License-Identifier: Apache-2.0
// Waits of the blocks of a loop's kernel for each other: before a command that touches bytes of an earlier one since
// the last wait, one of them writing, unless the same block touches them in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/device/touched.h"

namespace unroll::cuda {

// Bytes that a command reads or writes. With `row_bytes` the memory is a matrix whose elements belong to blocks by row
// and column (UnitAccess): `units` in `width` bytes of each of `rows` rows; without units any block of the group that
// has the row may touch them.
struct LoopTouch : device::Touch {
  std::size_t row_bytes = 0, width = 0, rows = 0, units = 0;
};

enum class Wait : std::uint8_t { none, group, grid };  // group: the blocks that have the same rows

class Exchange {
 public:
  // The wait that the blocks need before a command with these.
  Wait wait_for(const std::vector<LoopTouch>& touches) const;
  void waited(Wait wait);
  void add(const std::vector<LoopTouch>& touches) {
    since_grid_.insert(since_grid_.end(), touches.begin(), touches.end());
  }

 private:
  static Wait between(const LoopTouch& a, const LoopTouch& b);
  std::vector<LoopTouch> since_grid_;  // the last wait of the grid
  std::size_t since_group_ = 0;        // the first of them since the last wait of groups
};

}  // namespace unroll::cuda
