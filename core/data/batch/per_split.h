// SPDX-License-Identifier: Apache-2.0
// An item for each split, and their names.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "unroll/train/task.h"

namespace unroll {

template <class T>
struct PerSplit : std::array<T, 3> {
  using std::array<T, 3>::operator[];
  constexpr T& operator[](Split split) { return (*this)[static_cast<std::size_t>(split)]; }
  constexpr const T& operator[](Split split) const { return (*this)[static_cast<std::size_t>(split)]; }
};

inline constexpr PerSplit<std::string_view> k_split_names = {"training", "validation", "test"};

}  // namespace unroll
