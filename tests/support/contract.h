// SPDX-License-Identifier: Apache-2.0
// The asynchronous contract of unroll/passes/backend.h, guarantee by guarantee.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::testing {

struct Guarantee {
  std::string name;  // "upload copies its argument"
  // Whether the backend keeps it in a small program that shows the opposite.
  std::function<bool(Backend&)> holds;
};
const std::vector<Guarantee>& guarantees();

}  // namespace unroll::testing
