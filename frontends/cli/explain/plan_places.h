// SPDX-License-Identifier: Apache-2.0
// Which part of the work a call of a plan does: the phase of an update, and the layer of the model.
#pragma once

#include <string_view>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::cli {

inline constexpr const char* k_shared = "shared";  // of several layers, or of none

// "forward"
std::string_view phase_name(Origin::Phase phase);

// The origin of each node of plan.graph, k_shared where it names no layer. Bodies of loops belong to their loop.
std::vector<Origin> plan_places(const Plan& plan);

// For each line of a report of the plan; a line inside a loop is of the loop's place. Branches side by side are shared,
// the lines of their calls have their own places; lines that name no node are shared.
std::vector<Origin> line_places(const std::vector<ReportLine>& lines, const std::vector<Origin>& nodes);

}  // namespace unroll::cli
