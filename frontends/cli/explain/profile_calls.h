// SPDX-License-Identifier: Apache-2.0
// Time of an update: converts the reports of executables to rows by phase and by call.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "frontends/cli/explain/plan_places.h"
#include "frontends/cli/explain/timed_backend.h"

namespace unroll::cli {

// A call of a plan, or of a loop in it.
struct CallTime {
  Origin place;
  std::string step, implementation;
  int depth = 0;         // number of enclosing loops
  double milliseconds;   // per update; 0: not reported
  double predicted_ms;   // the same, by the backend's model; 0: no prediction
  double flop, bytes;    // per update, from the graph
  bool whole = false;    // part of the plan's time, not of another call's
};

struct UpdateProfile {
  std::vector<CallTime> calls;               // in order of the plans
  std::array<double, 4> phase_ms{};          // by Origin::Phase
  double run_ms = 0;        // of executables; more than the sum of calls, because threads start and finish
  double predicted_ms = 0;  // the same, by the backend's model; 0: no prediction
};
// Averages over this number of updates.
UpdateProfile profile_updates(const std::vector<TimedBackend::Ran>& ran, std::int64_t updates);

}  // namespace unroll::cli
