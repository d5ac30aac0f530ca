// SPDX-License-Identifier: Apache-2.0
// Checks of a training setup: exact resume, precision, learning rate range test.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/train/options.h"
#include "unroll/train/task.h"

namespace unroll {

// Checks that an interrupted and resumed run writes the same bytes as an uninterrupted one. It fails for tasks whose
// batches are not a pure function of (seed, epoch, index) and for tasks with hidden state.
struct ResumeCheck {
  std::int64_t updates = 0, stopped_after = 0;
  // "last.safetensors: 'w' differs first at [3]: 0.5, resumed 0.25"; empty: equal
  std::vector<std::string> differences;
};
// Trains for `updates` updates in folder/straight, and with one interruption in folder/resumed. Reports, validations
// and checkpoints happen before and after the interruption.
UNROLL_API ResumeCheck verify_resume(const std::shared_ptr<const Task>& task, Backend& backend,
                                     const TrainerOptions& options, std::int64_t updates, const std::string& folder);

// Compares the first updates of a run in the options' precision with the same updates in f32 (same seed, same data).
struct PrecisionCheck {
  struct Point {
    std::int64_t update;
    double f32, own;  // smoothed training losses; NaN after that run stopped
  };
  std::vector<Point> points;
  double largest = 0;           // largest |own - f32| / |f32| over the points
  std::int64_t largest_at = 0;  // the update with that difference
  std::int64_t skipped_updates = 0;  // in the options' precision
  std::string failure;          // error that stopped the run in the options' precision; empty: none
  bool agrees = false;          // no failure, and `largest` is within the tolerance
};
// Throws Error(usage) when the options' precision is f32, and Error(numeric) when the f32 run stops.
UNROLL_API PrecisionCheck check_precision(const std::shared_ptr<const Task>& task, Backend& backend,
                                          const TrainerOptions& options, std::int64_t updates, double tolerance);

// Search for a learning rate, in two parts. A range test (Smith 2017), updates with an exponentially growing rate,
// finds the rate at which the loss diverges. Below it, short runs with the options' schedule, from equal parameters and
// on equal batches, find the rate with the lowest validation loss (without a validation set: training loss). Three
// rounds keep the better rates and train them longer. It writes no files and changes no trainer.
struct LrPoint {
  double lr, loss, smoothed;
};
struct LrTrial {
  double lr;
  std::int64_t updates;
  // lowest of four validations, or of mean losses over quarters of the updates; infinite if any was not finite
  double loss;
};
struct LrSearchOptions {
  double from = 1e-6, to = 1;
  std::int64_t updates = 100;        // for the range test
  std::int64_t trial_updates = 200;  // for short runs: half as many in round 1, then 2 and 4 times as many
  std::function<void(const LrTrial&)> trial = {};  // called after each short run
};
struct LrSearch {
  std::vector<LrPoint> points;  // ends when the smoothed loss exceeds 4x its minimum or is not finite
  std::vector<LrTrial> trials;
  double suggested = 0;         // the rate of the best trial of the last round, or between the best two
};
// Throws Error(numeric) when the loss is not finite at the first update, and when no short run lowers the loss by more
// than its noise.
UNROLL_API LrSearch find_lr(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
                            const LrSearchOptions& search = {}, const std::function<void(const LrPoint&)>& report = {});

}  // namespace unroll
