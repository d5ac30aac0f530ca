// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scan/exchange.h"

#include <algorithm>

namespace unroll::cuda {

// If only groups wait, the list would grow with the steps. At this size the grid waits once.
constexpr std::size_t k_most_touches = 2048;

Wait Exchange::wait_for(const std::vector<LoopTouch>& touches) const {
  if (since_grid_.size() > k_most_touches) return Wait::grid;
  Wait most = Wait::none;
  for (std::size_t k = 0; k < since_grid_.size() && most != Wait::grid; ++k)
    for (const LoopTouch& now : touches) {
      const Wait wait = between(since_grid_[k], now);
      if (wait == Wait::grid || k >= since_group_) most = std::max(most, wait);
    }
  return most;
}

void Exchange::waited(Wait wait) {
  if (wait == Wait::grid) since_grid_.clear();
  if (wait != Wait::none) since_group_ = since_grid_.size();
}

// `none` if no two blocks touch the same byte, `group` if such blocks have the same rows. Matrices with rows of the
// same length either are the same one, whose elements have the same owner, or lie beside each other, or share their
// rows.
Wait Exchange::between(const LoopTouch& a, const LoopTouch& b) {
  if (a.memory != b.memory || (!a.writes && !b.writes) || a.begin >= b.end || b.begin >= a.end) return Wait::none;
  if (a.row_bytes == 0 || a.row_bytes != b.row_bytes) return Wait::grid;
  const bool is_same = a.begin == b.begin && a.width == b.width && a.rows == b.rows && a.units == b.units;
  if (is_same && a.units > 0) return Wait::none;
  const std::size_t distance = a.begin <= b.begin ? (b.begin - a.begin) % a.row_bytes
                                                  : (a.row_bytes - (a.begin - b.begin) % a.row_bytes) % a.row_bytes;
  if (distance >= a.width && distance + b.width <= a.row_bytes) return Wait::none;
  const std::size_t span = std::max(a.begin + a.width, b.begin + b.width) - std::min(a.begin, b.begin);
  return a.rows == b.rows && span <= a.row_bytes ? Wait::group : Wait::grid;
}

}  // namespace unroll::cuda
