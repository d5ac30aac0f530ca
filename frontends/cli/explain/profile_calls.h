// SPDX-License-Identifier: Apache-2.0
// Where the time of an update goes: from what executables report to rows by phase and by call.
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
  int depth = 0;         // of loops around it
  double milliseconds;   // of an update; 0: not told
  double predicted_ms;   // the same, by the backend's model; 0: it has none
  double flop, bytes;    // of an update, as the graph says
  bool whole = false;    // a part of the plan's time, not of another call's
};

struct UpdateProfile {
  std::vector<CallTime> calls;               // in order of the plans
  std::array<double, 4> phase_ms{};          // by Origin::Phase
  double run_ms = 0;        // of executables, which is more than their calls: threads begin and end
  double predicted_ms = 0;  // the same, by the backend's model; 0: it has none
};
// Of this number of updates.
UpdateProfile profile_updates(const std::vector<TimedBackend::Ran>& ran, std::int64_t updates);

}  // namespace unroll::cli
