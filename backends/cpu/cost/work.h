// SPDX-License-Identifier: Apache-2.0
// How long a plan and its loops take in each schedule, by costs.h: which schedules to try, whether more threads pay.
#pragma once

#include <vector>

#include "backends/cpu/cost/costs.h"
#include "backends/cpu/cost/schedule.h"
#include "unroll/passes/backend.h"

namespace unroll::cpu {

// How the parts share a call of a loop's body in this schedule.
Share share_of(Schedule schedule);
// A node of a plan, loops among them, with the barrier after it. Loops take their best schedule.
double node_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t node, int parts);

// All steps of a loop, in this schedule.
double loop_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t scan, Schedule schedule,
               int parts);
// Of the possible schedules of a loop those that may be the soonest done, best guess first.
std::vector<Schedule> rank_schedules(const MachineModel& machine, const Costs& costs, const Plan& plan,
                                     std::int32_t scan,
                                     int parts, const std::vector<Schedule>& possible);

// Branches of a fork that some of the parts run, one after the other.
struct ForkLane {
  int parts = 0;
  std::vector<std::size_t> branches = {};
};
// All parts, by the work in the branches; nanoseconds: a guess at the slowest one's time and at that of all parts doing
// the branches in turn.
struct ForkSplit {
  std::vector<ForkLane> lanes;
  double side_by_side_ns = 0, in_turn_ns = 0;
};
ForkSplit split_fork(const MachineModel& machine, const Costs& costs, const Plan& plan, const Fork& fork, int parts);

// Nanoseconds of a run.
double plan_ns(const MachineModel& machine, const Plan& plan, int parts);
// Whether `threads` of them are sooner done than one.
bool threads_pay(const MachineModel& machine, const Plan& plan, int threads);

}  // namespace unroll::cpu
