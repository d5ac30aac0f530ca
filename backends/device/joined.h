// SPDX-License-Identifier: Apache-2.0
// Products that run in the dispatch of an elementwise node that reads them: its epilogue.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/common/hazards.h"
#include "unroll/passes/backend.h"

namespace unroll::device {

bool is_pointwise(const Node& node);  // elementwise or fused

struct Joined {
  std::int32_t product = -1, epilogue = -1;  // nodes
  std::vector<int> gates = {};  // [operand of the epilogue] the gate of the product that it is; -1: another value
  int n_gates = 1;
  bool stores = false;          // something else reads the product too, later
  // Nodes that copy a gate: the epilogue stores it there. Each gate is one of its operands.
  std::vector<std::pair<std::int32_t, int>> kept = {};
  // The state that the product is: then it runs with the epilogue of the next step, which reads that state. -1: both
  // are of one step.
  int state = -1;
  // Elementwise node whose result that state is, and which reads the product: it runs with the next step too. -1: the
  // product is the state.
  std::int32_t through = -1;
  std::vector<Joined> otherwise = {};  // in one step, for kernels that cannot do this
};
// True if a result of the epilogue shares memory with the copy of a gate. The plan allows that only if nothing reads
// the copy later, so it must not be stored: it would replace the result.
bool is_overwritten(const Plan& plan, const Joined& joined, std::int32_t copy);

// Outputs of the loop whose body a plan is; without states and outputs: no loop.
struct LoopOutputs {
  int n_states = 0;
  std::vector<bool> stored = {};  // [output] of the loop
};
LoopOutputs loop_outputs(const Plan& plan, std::int32_t scan);

// Parts of a concatenation that one elementwise node computes and has in other places too: it stores them twice.
struct JoinedConcat {
  std::int32_t concat = -1, node = -1;
  struct Part {
    std::int32_t output;  // of the node
    std::int64_t first;   // along the axis of the concatenation
  };
  std::vector<Part> parts = {};
};
std::vector<JoinedConcat> joined_concats(const Plan& plan, const common::Hazards& hazards);

// Products of a plan with an epilogue that may run as late as it: nothing between the two overwrites an operand of the
// product, and neither does the epilogue. Each node is in one at most.
std::vector<Joined> joined_products(const Plan& plan, const common::Hazards& hazards, const LoopOutputs& loop,
                                    const std::vector<JoinedConcat>& concats);

// Places of the states of a loop between steps. A state that the loop also stacks is written into its stack only, and
// the next step reads it there: its stack after each step, or its stack before each step, one slice ahead.
struct StatePlaces {
  struct Shifted {
    int output;  // a stack of the state before each step, beside the one after each step or another one before it
    int state;
    bool in_step = false;  // the step stores the state there too, one slice ahead; else it is copied after the loop
  };
  std::vector<int> after = {}, before = {};  // [state] output of the loop; -1: none
  std::vector<bool> in_arena = {};           // [state] where this step computed it: steps then use two arenas in turn
  std::vector<Shifted> shifted = {};
  std::vector<bool> settled = {};            // [output] of the body: no step copies it
  bool two_arenas = false;                   // also where a step reads what the one before computed
  int stored_ahead(std::size_t output) const;  // the state that a step stores in this output, for the next; -1: none
};
void set_state_places(StatePlaces& places, const Plan& body, const LoopOutputs& loop);

}  // namespace unroll::device
