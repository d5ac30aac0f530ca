// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unroll/passes/run.h"
#include "unroll/support/export.h"
#include "unroll/train/trainer.h"

namespace unroll {

// Throws Error(usage) on numbers out of range and on options that exclude each other.
void check_training(const TrainerOptions& options);
// For tools that need updates alone: no files, resume, validations, statistics, early stopping, estimate or time limit.
UNROLL_API TrainerOptions updates_alone(TrainerOptions options);
// The options by which the graphs of a run are planned.
PlanOptions plan_options(const TrainerOptions& options);

}  // namespace unroll
