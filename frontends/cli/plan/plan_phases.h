// SPDX-License-Identifier: Apache-2.0
// Which part of the work a node of a plan does: the phase of an update, and the layer of the model. Only the inputs and
// outputs of a plan have names; everything else follows from them, and where it does not follow it is shared.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/backend.h"

namespace unroll::cli {

// forward   what the loss, metrics, carried states or other results are computed from
// backward  what else the gradients are computed from, and their norm
// update    the rest: clipping, optimiser, averages, sums for the report
// A node that several phases need is of the first one.
enum class PlanPhase : std::uint8_t { forward, backward, update };
std::string_view phase_name(PlanPhase phase);

struct NodePlace {
  PlanPhase phase = PlanPhase::forward;
  std::string layer;  // of layer_of_parameter, or k_loss or k_shared
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};
inline constexpr const char* k_loss = "loss";      // after the last layer, and the gradient of that
inline constexpr const char* k_shared = "shared";  // of several layers, or of none

// "recurrent.l0" of "recurrent.weight_ih_l0_reverse", "output" of "output.bias"; "l0" when all parameters are those of
// recurrent layers: a bare stack. Both directions are one layer.
std::string layer_of_parameter(const std::string& name, bool bare_stack);
bool is_bare_stack(const std::set<std::string>& parameters);

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
