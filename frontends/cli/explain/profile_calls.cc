// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/plan_table.h"
#include "frontends/cli/explain/profile_calls.h"

namespace unroll::cli {
namespace {

void add_plan(const TimedBackend::Ran& ran, double updates, UpdateProfile& profile) {
  const double runs = static_cast<double>(ran.runs) / updates;
  for (const PlanCall& call : plan_calls(*ran.plan, ran.lines)) {
    const CallTime time{call.place, call.line.step, call.line.implementation, call.line.depth,
                        call.line.milliseconds / updates, call.line.predicted_ms * runs, call.flop * runs,
                        call.bytes * runs, call.counts};
    if (time.whole) {
      profile.phase_ms[static_cast<std::size_t>(time.place.phase)] += time.milliseconds;
      profile.predicted_ms += time.predicted_ms;
    }
    profile.calls.push_back(time);
  }
}

}  // namespace

UpdateProfile profile_updates(const std::vector<TimedBackend::Ran>& ran, std::int64_t updates) {
  UpdateProfile profile;
  for (const TimedBackend::Ran& one : ran) {
    add_plan(one, static_cast<double>(updates), profile);
    profile.run_ms += 1e3 * one.seconds / static_cast<double>(updates);
  }
  return profile;
}

}  // namespace unroll::cli
