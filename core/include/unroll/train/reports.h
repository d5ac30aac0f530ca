// SPDX-License-Identifier: Apache-2.0
// Reports of training: the estimate before a run, progress, statistics, results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unroll/support/tensor.h"

namespace unroll {

// The predicted cost of a run. Memory follows from the execution plans; time is measured in trial updates.
struct RunEstimate {
  struct Part {
    std::string name;  // "parameters", "arena"
    std::size_t bytes;
  };
  std::vector<Part> memory;  // largest first
  std::size_t bytes = 0;
  bool on_device = false;              // the parts are memory of a device, see Capabilities::memory_bytes
  std::size_t process_bytes = 0;       // of the host: held besides the run; part of `bytes` unless on_device
  std::size_t saved_bytes = 0;         // part of the arena: activations saved for the backward pass
  std::int64_t updates = 0, validations = 0;  // remaining
  double update_seconds = 0, validation_seconds = 0;  // of one; 0: not measured
  double compile_seconds = 0;  // for programs whose batch shapes the trial did not use
  double seconds() const {
    return static_cast<double>(updates) * update_seconds + static_cast<double>(validations) * validation_seconds +
           compile_seconds;
  }
};
// The current work, for a progress display: "compiling", "training" update 12 of 100, "evaluating" batch 3 of 40.
struct WorkStage {
  std::string doing = "starting";
  std::int64_t done = 0, of = 0;  // 0: unknown
};
using StageReport = std::function<void(const WorkStage&)>;

// Training statistics of one update. A second executable computes them and changes nothing.
struct ParameterStatistics {
  double gradient_norm;  // before clipping
  double update_ratio;   // norm of the change / norm of the parameter; about 1e-3 is normal
};
struct LoopStatistics {
  double saturated;  // share of gates outside [0.1, 0.9] and of tanh outputs outside [-0.9, 0.9]
  double dead;       // share of tanh and relu units stuck at one end of their range in every step and row
};
struct TrainingStatistics {
  std::int64_t update = 0;
  std::map<std::string, ParameterStatistics> parameters;  // by parameter name; frozen ones are left out
  std::map<std::string, LoopStatistics> loops;       // recurrent layers by direction: "l0", "encoder.l1_reverse"
};
// A symptom of a run with its evidence and remedies, reported once (table in docs/training.md).
struct Advice {
  std::string symptom;  // "overfitting"
  std::string text;
};
// Report of fit(), sent every log_every updates and after each validation.
struct Progress {
  std::int64_t update;
  std::int64_t max_updates;
  double loss;           // mean since the last report
  double lr;
  double gradient_norm;
  std::optional<double> loss_scale;  // with Precision::f16
  double updates_per_second;
  double items = 0;  // items averaged by the loss since the last report: tokens of a language model, otherwise rows
  double data_wait = 0;  // share of the time since the last report spent waiting for batches
  std::map<std::string, double> metrics;
  std::optional<double> validation_loss;  // set when this report follows a validation
  std::map<std::string, double> validation_metrics;
  bool best = false;
  std::int64_t skipped_updates = 0;
  std::optional<TrainingStatistics> statistics;  // the latest since the last report
  std::vector<Advice> advice;  // usually empty
};
struct TrainResult {
  std::int64_t updates = 0;
  double best_validation_loss = 0;
  double last_validation_loss = 0;
  std::map<std::string, double> validation_metrics;  // of the best validation
  std::int64_t skipped_updates = 0;
  std::int64_t rollbacks = 0;
  double data_wait = 0;         // share of training time spent waiting for batches, without validations
  double seconds = 0;            // from the first update
  double estimated_seconds = 0;  // the estimate for the completed part of the run; 0: no estimate
  bool interrupted = false;     // stopped by stop() or by a limit
  bool out_of_time = false;     // stopped by max_minutes
  bool out_of_patience = false;  // stopped by patience
};

struct EvaluateResult {
  double loss = 0;
  std::map<std::string, double> metrics;
  TensorMap counts;  // f64, of TaskGraph::counts
};
// The result of one optimizer step in a custom training loop.
struct UpdateResult {
  std::int64_t update = 0;   // its number, from 1
  double loss = 0;           // of the batch, before the step; NaN when the update was skipped
  double lr = 0;
  double gradient_norm = 0;  // of all gradients together, before clipping
  bool skipped = false;      // loss or gradients were not finite: nothing changed
  std::map<std::string, double> metrics = {};
};

}  // namespace unroll
