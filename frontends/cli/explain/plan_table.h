// SPDX-License-Identifier: Apache-2.0
// Time of a plan by phase and layer, and by call, with predicted times and contents.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "frontends/cli/explain/profiling_backend.h"
#include "frontends/cli/explain/plan_places.h"

namespace unroll::cli {

// A line of the report, with information from the plan.
struct PlanCall {
  ReportLine line;
  Origin place;
  std::string shapes;          // "f32[256,64] f32[64,1024] -> f32[256,1024]"; a loop also has its steps
  double flop = 0, bytes = 0;  // of a run of the plan, as node_work counts
  bool is_inner = false;       // in a loop
  bool counts = false;         // its time is part of the plan's, not of another call's
  bool is_loop = false;        // over time, or a claimed composite: the picture shows its data flow
};
// Scales times of concurrent branches so that they add up to the time of all together.
std::vector<PlanCall> plan_calls(const Plan& plan, const std::vector<ReportLine>& lines);

// A value of one loop that another one depends on, directly or through other calls.
struct PlanEdge {
  std::size_t from = 0, to = 0;  // calls
  std::string what;              // "f32[64,32,256]"
};
// All calls of one phase and layer.
struct PlaceTime {
  Origin place;
  int calls = 0;
  double milliseconds = 0, predicted_ms = 0, flop = 0;
  std::size_t longest = 0;  // the longest call
};

struct PlanTable {
  std::vector<PlanCall> calls;
  std::vector<PlanEdge> edges;
  std::vector<PlaceTime> places;  // by phase; within a phase, layers in the order of their first forward call
  double milliseconds = 0;        // of all calls
};
PlanTable plan_table(const ProfiledPlan& explained);

// The calls of an update, with times and work per update; time 0: not reported, predicted 0: no prediction.
struct UpdateProfile {
  std::vector<PlanCall> calls;  // in order of the plans
  std::array<double, 4> phase_ms{};  // by Origin::Phase
  double run_ms = 0;        // of executables; more than the sum of calls, because threads start and finish
  double predicted_ms = 0;  // the same, by the backend's model
};
// Averages over this number of updates.
UpdateProfile profile_updates(const std::vector<ProfiledPlan>& plans, std::int64_t updates);

}  // namespace unroll::cli
