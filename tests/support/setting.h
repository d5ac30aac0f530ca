// SPDX-License-Identifier: Apache-2.0
// Numbers that whoever runs a test may give by environment variable: seeds, and how much is tried.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace unroll::testing {

inline std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace unroll::testing
