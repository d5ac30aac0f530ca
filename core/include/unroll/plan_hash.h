// SPDX-License-Identifier: Apache-2.0
// Hashes to decide whether two plans are equal. Names do not count.
#pragma once

#include <cstdint>

#include "unroll/backend.h"

namespace unroll {

// FNV-1a, 64 bits, over ops, attributes, constants, types and connections. It ignores names and the order of nodes.
// Inputs and outputs are identified by position.
UNROLL_API std::uint64_t graph_hash(const Graph& graph);
// Covers the graph, the location of every value, and the plans of the bodies.
UNROLL_API std::uint64_t plan_hash(const Plan& plan);

}  // namespace unroll
