// SPDX-License-Identifier: Apache-2.0
// The learning rate of an update. It depends only on the update, except for plateaus, which depend on validations.
#pragma once

#include "unroll/train/trainer.h"

namespace unroll {

// Throws Error(usage) on an unknown name, with the nearest known one, and on a number out of range.

// Learning rate of `update` (from 1) of `max_updates`. `plateaus`: how many there have been.
double scheduled_lr(const ScheduleOptions& schedule, double lr, std::int64_t update, std::int64_t max_updates,
                    std::int64_t plateaus = 0);

// Counts plateaus. Kept in checkpoints.
struct PlateauState {
  std::int64_t plateaus = 0;
  std::int64_t waited = 0;  // validations since the best one or the last plateau
};
void after_validation(const ScheduleOptions& schedule, bool better, PlateauState& state);

}  // namespace unroll
