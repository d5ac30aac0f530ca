// SPDX-License-Identifier: Apache-2.0
// A device that runs a plan with symbols for numbers and believes nothing that the plan does not state.
#pragma once

#include <string>
#include <vector>

#include "backends/common/hazards.h"
#include "unroll/passes/backend.h"

namespace unroll::strict {

// What is wrong with a plan, in words; empty when it keeps its promises. The plan is run in its order, byte by byte:
//   - an operand is read where its numbers are, not where they were or are not yet; results end where they are bound
//   - each task touches the bytes that `hazards` states for it and no others, inside the memory there is
//   - of two tasks that touch a byte, and one writes it, a path of edges says which is first: then all other orders
//     that the edges allow give the same
//   - results overlap operands only element by element in elementwise nodes, operands of their shape in fused
// reductions, and     no other results or scratch
//   - inputs are overwritten only by outputs they are donated to; constants never
//   - a scan's scratch holds the arena of its body and two copies of each state; the same holds for its body
// At most `most` findings are listed. Throws Error(unsupported) for plans of more than k_most_bytes.
std::vector<std::string> violations(const Plan& plan, const common::Hazards& hazards, std::size_t most = 8);

inline constexpr std::size_t k_most_bytes = std::size_t{1} << 26;

}  // namespace unroll::strict
