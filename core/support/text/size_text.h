// SPDX-License-Identifier: Apache-2.0
// Byte counts in messages of the library: "12 KiB", "3 MiB".
#pragma once

#include <cstddef>
#include <string>

namespace unroll {

// Rounds up; uses KiB below 10 MiB, otherwise MiB.
inline std::string size_text(std::size_t bytes) {
  const bool small = bytes < std::size_t{10} << 20;
  const int shift = small ? 10 : 20;
  return std::to_string((bytes + (std::size_t{1} << shift) - 1) >> shift) + (small ? " KiB" : " MiB");
}

}  // namespace unroll
