// SPDX-License-Identifier: Apache-2.0
// Estimates the time and memory of a run before it begins.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/train/device/device_model.h"
#include "unroll/train/trainer.h"

namespace unroll {

// Updates on trial. The model's parameters and all it carries are as before, in every bit.
struct Trial {
  std::function<std::vector<Batch>(std::int64_t update)> batches;
  std::function<DeviceModel::UpdateInputs(std::int64_t update)> inputs;
  std::function<bool()> stop;             // asked between updates; may be empty
  std::function<bool(bool)> decided;      // what all ranks do, of what each of them would do
  std::int64_t first = 1, last = 0;       // updates that the run will make
  std::int64_t epoch = 1;                 // updates of one
  std::int64_t validation_batches = 0;    // of one validation; 0: the run has none
  int prefetch = 0;
  double seconds = 0;                     // at most
};
// Programs that the run will need besides those of the trial: one for each further shape of batch.
struct FurtherPrograms {
  std::size_t n = 0, bytes = 0;
  std::size_t arena = 0;  // needed by the largest of all, if all take turns in one
  std::size_t plan_bytes = 0;  // held by the process for the plan of each
};
// Fills update_seconds, validation_seconds and compile_seconds. Programs are compiled on the way, which is not counted.
FurtherPrograms try_updates(DeviceModel& model, const Task& task, const Trial& trial, RunEstimate& estimate);

// Adds the memory of those programs to the parts, which must fit too, and the rest of the process: code, data, plans.
// `before`: resident bytes before the model was made.
void add_rest(RunEstimate& estimate, const FurtherPrograms& further, const DeviceModel& model, std::size_t before);

}  // namespace unroll
