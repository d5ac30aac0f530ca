// SPDX-License-Identifier: Apache-2.0
// Predicted time of a plan and its loops in each schedule (costs.h). Selects schedules and numbers of threads.
#pragma once

#include <vector>

#include "backends/cpu/cost/costs.h"
#include "backends/cpu/cost/schedule.h"
#include "unroll/passes/backend.h"

namespace unroll::cpu {

// Returns how a schedule divides a call of a loop's body among workers.
Share share_of(Schedule schedule);
// Time of a node, including its barrier. Loops use their best schedule.
double node_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t node, int parts);

// Time of all steps of a loop in this schedule.
double loop_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t scan, Schedule schedule,
               int parts);
// Returns the schedules of a loop that may be the fastest, best estimate first.
std::vector<Schedule> rank_schedules(const MachineModel& machine, const Costs& costs, const Plan& plan,
                                     std::int32_t scan,
                                     int parts, const std::vector<Schedule>& possible);

// Branches of a fork that run one after the other on some of the workers.
struct ForkLane {
  int parts = 0;
  std::vector<std::size_t> branches = {};
};
// Assignment of all workers by the work in the branches. Nanoseconds: estimates of the slowest lane, and of all workers
// running the branches in turn.
struct ForkSplit {
  std::vector<ForkLane> lanes;
  double side_by_side_ns = 0, in_turn_ns = 0;
};
ForkSplit split_fork(const MachineModel& machine, const Costs& costs, const Plan& plan, const Fork& fork, int parts);

// Nanoseconds of one run.
double plan_ns(const MachineModel& machine, const Plan& plan, int parts);
// True if `threads` workers are faster than one.
bool threads_pay(const MachineModel& machine, const Plan& plan, int threads);

}  // namespace unroll::cpu
