// SPDX-License-Identifier: Apache-2.0
// Which layer of the model each node of a plan belongs to; the rules are said in plan_phases.h.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "frontends/cli/plan/plan_values.h"

namespace unroll::cli {

// forward   what the loss, metrics, carried states or other results are computed from
// backward  what else the gradients are computed from, and their norm
// update    the rest: clipping, optimiser, averages, sums for the report
// communication   sums over several ranks
// Of the first three, a node that several phases need is of the first one.
enum class PlanPhase : std::uint8_t { forward, backward, update, communication };

inline constexpr const char* k_loss = "loss";      // after the last layer, and the gradient of that
inline constexpr const char* k_shared = "shared";  // of several layers, or of none

// "recurrent.l0" of "recurrent.weight_ih_l0_reverse", "output" of "output.bias"; "l0" when all parameters are those of
// recurrent layers: a bare stack. Both directions are one layer.
std::string layer_of_parameter(const std::string& name, bool bare_stack);
bool is_bare_stack(const std::set<std::string>& parameters);

// `phases` are those of the nodes; `about_norm` are the values that the norm of all gradients is made of or that follow
// from it.
std::vector<std::string> node_layers(const Graph& graph, const PlanValues& values, const std::vector<PlanPhase>& phases,
                                     const Flags& about_norm, const std::set<std::string>& parameters);

}  // namespace unroll::cli
