// SPDX-License-Identifier: Apache-2.0
// Whether two plans are the same: a number that depends on everything but names.
#pragma once

#include <cstdint>

#include "unroll/backend.h"

namespace unroll {

// Of ops, attributes, constants, types and how nodes read each other; not of names and not of the order of nodes.
// Inputs and outputs count by their place. 64 bits of FNV-1a.
UNROLL_API std::uint64_t graph_hash(const Graph& graph);
// Of the graph, of where every value lies, and of the bodies' plans.
UNROLL_API std::uint64_t plan_hash(const Plan& plan);

}  // namespace unroll
