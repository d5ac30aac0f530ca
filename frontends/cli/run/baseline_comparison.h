// SPDX-License-Identifier: Apache-2.0
// Checks at the end of a training run: divergence, and baselines that do better.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/run/progress.h"
#include "frontends/config/config.h"

namespace unroll::cli {

// Records the training losses of a run.
class LossTrace {
 public:
  void add(const Progress& progress);
  // True if the last loss or a metric is not finite, or the symptom appeared and the loss stayed above the first.
  bool diverged(const TrainResult& result, const std::vector<Advice>& advice) const;

 private:
  std::optional<double> first_, last_;
  bool infinite_ = false;  // a metric of the last report
};

// Compares metrics of a split with the task's baselines on it, as compare_with_baselines.
std::optional<Advice> baseline_advice(const Task& task, const std::map<std::string, double>& metrics,
                                      const std::map<std::string, std::map<std::string, double>>& baselines);

// Compares the best validation with the task's baselines on the same split, and adds notes. Skips interrupted runs.
void note_baselines(const Task& task, const Config& config, const TrainResult& result, ProgressDisplay& display);

}  // namespace unroll::cli
