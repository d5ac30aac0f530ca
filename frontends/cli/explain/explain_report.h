// SPDX-License-Identifier: Apache-2.0
// What `unroll explain` says of a plan: for people a table on one screen, then what passes did and what runs; for
// programs all of it.
#pragma once

#include <string>

#include "frontends/cli/explain/plan_table.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

struct NamedPlan {
  std::string name;  // "update"
  ExplainedPlan explained;
  PlanTable table;
};

// plan, runs, milliseconds, predicted_ms, memory, places, left, passes, calls, edges (by index of calls), loops.
Report plan_json(const NamedPlan& plan);
// About a screen: time by phase and layer, the longest calls, optimizations not applied, memory. `full`: also what
// the steps of each loop consist of, every change that a pass made, and every call. Of a plan that did not run: its
// work by phase and layer, its loops, and every call.
Report plan_text(const NamedPlan& plan, bool full);

}  // namespace unroll::cli
