// SPDX-License-Identifier: Apache-2.0
// One change at a time beside a baseline: what each costs and brings, with the spread over seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/backend.h"
#include "unroll/trainer.h"

namespace unroll {

struct LeverSetup {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<const Task> task;
  TrainerOptions options;  // with a folder each seed has one of its own in it
};
struct Lever {
  std::string name;
  std::function<LeverSetup()> make;  // asked once
};
struct LeverOptions {
  std::int64_t seeds = 3;    // that of the options and those after it
  double minutes = 3.5;      // for all runs together
  std::int64_t points = 10;  // validations of a run
};

// One run. The learning rate stays as it is after its warm-up, so that runs may be compared wherever they are.
struct LeverRun {
  struct Point {
    double items;    // trained on so far: tokens of a language model, rows of others
    double seconds;  // of training, validations apart
    double loss;     // the lowest of a validation so far
  };
  std::uint64_t seed = 0;
  std::vector<Point> points;
  double items_per_second = 0, epoch_seconds = 0;
};
struct Spread {
  double mean = 0, low = 0, high = 0;
};
// Beside the baseline's runs, each with that of the same seed: whether the mean difference is larger than the range of
// the differences. With one seed there is no range, and nothing is told.
enum class Shift : std::uint8_t { within, lower, higher };
struct LeverResult {
  std::string name;
  Spread items_per_second, epoch_seconds;
  std::size_t bytes = 0;  // that a run needs beside the process (RunEstimate)
  Spread loss_at_items, loss_at_seconds;
  Shift speed = Shift::within, at_items = Shift::within, at_seconds = Shift::within;
  std::vector<LeverRun> runs;
  std::string failure;  // what stopped it; then nothing but `bytes` and `runs` is told
};
struct LeverTable {
  double items = 0, seconds = 0;  // where losses are compared: what every run reached
  std::vector<LeverResult> rows;  // the baseline first
};

// Runs take turns, seed by seed, so that what else the machine does meets all levers alike. The first lever is the
// baseline. Throws what stops the baseline, and Error(usage) on what any lever's options refuse, before the first run;
// a lever that does not fit into memory, or whose numbers are not finite, is a row with a failure.
UNROLL_API LeverTable pull_levers(std::span<const Lever> levers, const LeverOptions& options,
                                  const std::function<void(const std::string& name, const LeverRun&)>& report = {},
                                  const std::function<bool()>& stop = {});

}  // namespace unroll
