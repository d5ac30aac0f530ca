// SPDX-License-Identifier: Apache-2.0
// The rules of the verifier as a list, so that tests can compare them with the documentation.
#pragma once

#include <span>
#include <string_view>

namespace unroll {

inline constexpr int k_max_depth = 64;  // of bodies in bodies

struct VerifyRule {
  int number;
  std::string_view text;
};
std::span<const VerifyRule> verify_rules();

}  // namespace unroll
