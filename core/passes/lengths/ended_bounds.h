// SPDX-License-Identifier: Apache-2.0
// Bounds of values in rows that have ended, for loops that leave these rows out and write zeros there. log(s) is finite
// for the s that a masked loop saves, but not for s = 0. Zero times that is NaN, and a sum over rows adds it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Bounds of a value in its ended rows, over the real numbers. Values that hold the same in both forms count as finite.
struct EndedBounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  std::int32_t loop = -1;   // a scan that wrote zeros and that the value follows from; -1: the same in both forms
  std::int32_t cause = -1;  // the node that may have made it infinite or NaN; -1: it is finite

  static EndedBounds of(double number) { return {.low = number, .high = number}; }
  bool is_finite() const { return cause < 0; }
  bool holds(double number) const { return low <= number && number <= high; }
};

// Bounds of the result of a node from those of its operands. Known for constants, for elementwise nodes, for nodes that
// move elements, and for products of rows and a matrix.
EndedBounds ended_bounds(const Graph& graph, std::int32_t node, const std::vector<EndedBounds>& operands);

}  // namespace unroll
