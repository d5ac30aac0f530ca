// SPDX-License-Identifier: Apache-2.0
// A hash for the comparison of plans. It ignores names.
#pragma once

#include <cstdint>

#include "unroll/passes/backend.h"

namespace unroll {

// Covers graph_hash, the location of every value, and the plans of the bodies.
UNROLL_API std::uint64_t plan_hash(const Plan& plan);

}  // namespace unroll
