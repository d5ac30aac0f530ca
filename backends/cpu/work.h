// SPDX-License-Identifier: Apache-2.0
// A guess at how long a plan runs, good enough to tell whether more threads pay.
#pragma once

#include <vector>

#include "backends/cpu/schedule.h"
#include "unroll/backend.h"

namespace unroll::cpu {

struct Work {
  double nanoseconds = 0;  // on one thread
  double barriers = 0;     // when several threads run it
};
Work estimate_work(const Plan& plan);

struct RankedSchedule {
  Schedule schedule;
  double step_ns;  // a guess
};
// Of the possible schedules of a scan those that may be the soonest done, best guess first. rows: 0 where they meet.
std::vector<RankedSchedule> rank_schedules(const Plan& body, int threads, std::int64_t rows,
                                           const std::vector<Schedule>& possible);

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
ForkSplit split_fork(const Plan& plan, const Fork& fork, int parts);

// Whether `threads` of them are sooner done than one.
bool threads_pay(const Plan& plan, int threads);

}  // namespace unroll::cpu
