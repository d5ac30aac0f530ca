// SPDX-License-Identifier: Apache-2.0
// Ablation: change one option at a time, and compare speed, memory and loss with a baseline over several seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/train/trainer.h"

namespace unroll {

struct AblationSetup {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<const Task> task;
  TrainerOptions options;  // each seed uses a subfolder of `folder`, if set
  // Called before each run with its options: seed, folder, and the settings shared by all runs of the ablation.
  std::function<void(const TrainerOptions&)> starts = {};
};
struct AblationVariant {
  std::string name;
  std::function<AblationSetup()> make;  // called once
};
// The metric that ranks the runs: a metric of the task, or "loss".
struct AblationMetric {
  std::string name = "loss";
  bool higher_is_better = false;
};
struct AblationOptions {
  std::int64_t seeds = 3;    // consecutive seeds, starting with the seed of the options
  double minutes = 3.5;      // for all runs together; each run makes at least one update and one validation
  std::int64_t points = 10;  // validations per run
  // In order of preference: the first metric that all tasks have is compared, otherwise the loss. Losses are not
  // comparable if a change rescales them, such as the loss of a forecast's target.
  std::vector<AblationMetric> metrics = {};
};

// One training run. The learning rate is constant after the warm-up, so losses are comparable at any point of a run.
struct AblationRun {
  struct Point {
    double items;    // trained so far: tokens of a language model, otherwise rows
    double seconds;  // training time, without validations
    double loss;     // lowest validation loss so far
    double metric;   // best value so far of AblationTable::metric in a validation
  };
  std::uint64_t seed = 0;
  std::vector<Point> points;
  double items_per_second = 0, epoch_seconds = 0;
};
struct Spread {
  double mean = 0, low = 0, high = 0;
};
// Comparison with the baseline, seed by seed. A shift is reported when the mean difference is larger than the range of
// the differences. With one seed there is no range, and the result is always `within`.
enum class Shift : std::uint8_t { within, lower, higher };
struct AblationResult {
  std::string name;
  Spread items_per_second, epoch_seconds;
  std::size_t bytes = 0;  // memory of a run beyond the process itself (RunEstimate)
  Spread loss_at_items, loss_at_seconds, metric_at_items, metric_at_seconds;
  // Shifts of items per second, and of the metric. AblationTable::metric states if higher values are better.
  Shift speed = Shift::within, at_items = Shift::within, at_seconds = Shift::within;
  std::vector<AblationRun> runs;
  std::string failure;  // why the configuration failed; then only `bytes` and `runs` are valid
};
struct AblationTable {
  AblationMetric metric;
  double items = 0, seconds = 0;  // the point of comparison, which every run reached
  std::vector<AblationResult> rows;  // the baseline first
};

// Runs the ablation. Runs alternate seed by seed, so other load on the machine affects all configurations alike. The
// first variant is the baseline. Throws the baseline's errors, and Error(usage) before the first run when any options
// are invalid. A configuration that runs out of memory or diverges becomes a row with `failure` set.
UNROLL_API AblationTable run_ablation(std::span<const AblationVariant> variants, const AblationOptions& options,
                                  const std::function<void(const std::string& name, const AblationRun&)>& report = {},
                                  const std::function<bool()>& stop = {});

}  // namespace unroll
