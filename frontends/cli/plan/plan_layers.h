// SPDX-License-Identifier: Apache-2.0
// Which layer of the model each node of a plan belongs to; the rules are said in plan_phases.h.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "frontends/cli/plan/plan_phases.h"
#include "frontends/cli/plan/plan_values.h"

namespace unroll::cli {

// `phases` are those of the nodes; `about_norm` are the values that the norm of all gradients is made of or that follow
// from it.
std::vector<std::string> node_layers(const Graph& graph, const PlanValues& values, const std::vector<PlanPhase>& phases,
                                     const Flags& about_norm, const std::set<std::string>& parameters);

}  // namespace unroll::cli
