// SPDX-License-Identifier: Apache-2.0
// The verifier's rules as a list, so that tests and documentation can be checked against it.
#pragma once

#include <span>
#include <string_view>

namespace unroll {

struct VerifyRule {
  int number;
  std::string_view text;
};
std::span<const VerifyRule> verify_rules();

}  // namespace unroll
