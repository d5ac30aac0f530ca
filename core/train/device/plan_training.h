// SPDX-License-Identifier: Apache-2.0
// The programs of a training run, planned and compiled without a device to run them.
#pragma once

#include "unroll/train/trainer.h"

namespace unroll {

// Compiles what a Trainer does for the first batches: the update, in two programs where it accumulates, and the
// evaluation where there is a validation batch. Allocates nothing.
UNROLL_API void plan_training(const Task& task, Backend& backend, const TrainerOptions& options);

}  // namespace unroll
