// SPDX-License-Identifier: Apache-2.0
// What rounding in f32 may do to a graph, measured in f64 (Monte Carlo arithmetic, Parker 1997).
#pragma once

#include <cstdint>
#include <memory>

#include "unroll/graph.h"

namespace unroll::testing {

// The f64 graph with composites expanded and every result that f32 would round, and every operand of a sum, multiplied
// by 1 + 2^-24 or 1 - 2^-24 at random. Ops that only choose or move numbers are left exact.
std::shared_ptr<const Graph> with_rounding_noise(const Graph& graph, std::uint64_t seed);

}  // namespace unroll::testing
