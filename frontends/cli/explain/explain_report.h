// SPDX-License-Identifier: Apache-2.0
// Reports of `unroll explain` on a plan: for people one screen, then optimizations and calls; for programs all data.
#pragma once

#include <string>

#include "frontends/cli/explain/plan_table.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

struct NamedPlan {
  std::string name;  // "update"
  ProfiledPlan explained;
  PlanTable table;
};

// plan, runs, milliseconds, predicted_ms, memory, places, left, passes, calls, edges (by index of calls), loops.
Report plan_json(const NamedPlan& plan);
// Returns about one screen: time by phase and layer, the longest calls, missed optimizations, memory. `full` adds the
// steps of each loop, every change of a pass, and every call. For a plan that did not run: its work by phase and layer,
// its loops, and every call.
Report plan_text(const NamedPlan& plan, bool full);

}  // namespace unroll::cli
