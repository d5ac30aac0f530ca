// SPDX-License-Identifier: Apache-2.0
// The median of numbers; for an even count the upper one.
#pragma once

#include <algorithm>
#include <vector>

namespace unroll {

// Returns the median of at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace unroll
