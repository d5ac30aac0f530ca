// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Returns [gradient] the number of its bucket. The gradients of a bucket travel together: those known before another
// loop of the graph begins, or more of them, so that no bucket is small. Loops are scans, also within composites.
std::vector<int> exchange_buckets(std::span<const Value> gradients);

}  // namespace unroll
