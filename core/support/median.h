// SPDX-License-Identifier: Apache-2.0
// The median of some numbers; of an even number of them, the upper one.
#pragma once

#include <algorithm>
#include <vector>

namespace unroll {

// Of at least one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace unroll
