// SPDX-License-Identifier: Apache-2.0
// What the executables of one backend share.
#pragma once

#include <optional>

#include "backends/cpu/schedule.h"
#include "backends/cpu/weights.h"

namespace unroll::cpu {

struct BackendState {
  WeightStore weights = {};
  ScheduleChoices choices = {};
  std::optional<Schedule> schedule = {};  // of every scan that can have it; none: timings choose
};

}  // namespace unroll::cpu
