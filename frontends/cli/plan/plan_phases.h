// SPDX-License-Identifier: Apache-2.0
// Which part of the work a node of a plan does: the phase of an update, and the layer of the model. Only the inputs and
// outputs of a plan have names; everything else follows from them, and where it does not follow it is shared.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/cli/plan/plan_layers.h"
#include "unroll/backend.h"

namespace unroll::cli {

std::string_view phase_name(PlanPhase phase);

struct NodePlace {
  PlanPhase phase = PlanPhase::forward;
  std::string layer;  // of layer_of_parameter, or k_loss or k_shared
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

// For each node of plan.graph; bodies of loops belong to their loop. `parameters` are the names of the model's, as
// Trainer::parameters() has them. Plans of updates, evaluations, and of outputs "loss" and "d_<input>"; of a plan whose
// outputs are none of these everything is forward. The layer of a node is
//   that of the parameters it reads, or of the gradients and parameters that it gives;
//   in a node without any that of the layer before it (in the backward phase: that it leads to), as dropout has it.
std::vector<NodePlace> plan_phases(const Plan& plan, const std::set<std::string>& parameters);

// For each line of a report of the plan; a line inside a loop is of the loop's place. Branches side by side are shared,
// the lines of their calls have their own places; lines that name no node are shared.
std::vector<NodePlace> line_places(const std::vector<ReportLine>& lines, const std::vector<NodePlace>& nodes);

}  // namespace unroll::cli
