// SPDX-License-Identifier: Apache-2.0
// Maps each call of a plan to the phase of an update and the layer of the model.
#pragma once

#include <string_view>
#include <vector>

#include "unroll/passes/backend.h"

namespace unroll::cli {

inline constexpr const char* k_shared = "shared";  // of several layers, or of none

// "forward"
std::string_view phase_name(Origin::Phase phase);

// Returns the origin of each node of plan.graph; k_shared if it names no layer. Bodies of loops belong to their loop.
std::vector<Origin> plan_places(const Plan& plan);

// Returns the origin of each line of a plan's report. Lines inside a loop have the loop's origin. Concurrent branches
// are shared, but the lines of their calls have separate origins. Lines without a node are shared.
std::vector<Origin> line_places(const std::vector<ReportLine>& lines, const std::vector<Origin>& nodes);

}  // namespace unroll::cli
