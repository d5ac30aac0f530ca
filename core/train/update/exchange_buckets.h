// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Which gradients travel together: [gradient] the number of its bucket. A bucket has those that are known before
// another loop of the graph begins, or more of them, so that none is small. Loops are scans, also within composites.
std::vector<int> exchange_buckets(std::span<const Value> gradients);

}  // namespace unroll
