// SPDX-License-Identifier: Apache-2.0
// Options of training. docs/training.md explains them; field names are those of the config keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unroll/backend.h"
#include "unroll/train/reports.h"
#include "unroll/vfs.h"

namespace unroll {

// The update rules are those of torch.optim, except lion (Chen et al. 2023).
struct OptimizerOptions {
  std::string name = "adam";  // sgd, adam, adamw, rmsprop, adagrad, lion
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double alpha = 0.99;  // rmsprop
  double weight_decay = 0;
  bool decay_vectors = false;  // Apply weight decay to parameters of rank < 2 too: biases and norm gains.
};
// Options for the parameters whose name matches. The first matching group applies.
struct ParameterGroup {
  std::string match;                   // A pattern for the whole name. * matches any characters: "embedding.*".
  double lr_scale = 1;                 // Factor for the learning rate. 0 freezes the parameters.
  std::optional<double> weight_decay = {};  // Replaces the optimizer's weight decay, for any rank.
};
// The learning rate schedule: a linear warm-up, then the named schedule. Over the last `cooldown` updates the rate is
// multiplied by a linear decay to `final_fraction`. The final value would be reached one update after the last.
struct ScheduleOptions {
  //   constant
  //   linear, cosine   decay from lr to lr * final_fraction
  //   step             multiply by `factor` every `step_every` updates (torch.optim.lr_scheduler.StepLR)
  //   plateau          multiply by `factor` after `plateau_patience` validations without progress (ReduceLROnPlateau)
  //   one-cycle        rise from lr / 25 over the first 30 %, then fall, both cosine (Smith & Topin 2018, OneCycleLR)
  std::string name = "constant";
  std::int64_t warmup = 0;    // updates in which lr rises linearly from 0
  // linear, cosine, one-cycle: final lr / lr; with a cool-down: final fraction of the schedule's lr
  double final_fraction = 0;
  std::int64_t cooldown = 0;  // updates of the final linear decay
  double factor = 0.5;        // step, plateau
  std::int64_t step_every = 1000;
  std::int64_t plateau_patience = 5;
};
// Gradient clipping, applied in this order. 0 turns a method off.
struct ClipOptions {
  double value = 0;     // clip each element to [-value, value]
  // Adaptive gradient clipping (Brock et al. 2021, eq. 3): clip the norm of each unit (row of a matrix) to `adaptive`
  // times the norm of its weights, with at least 1e-3 for the latter. Vectors are not clipped.
  double adaptive = 0;
  double norm = 1;      // clip the global norm, as torch.nn.utils.clip_grad_norm_
};
// Weight averaging: a second set of parameters, averaged over the updates. The average is what is validated, saved as
// best.safetensors and returned by Trainer::parameters(). After n averaged updates, the weight of the next one is:
enum class Average : std::uint8_t {
  none,
  ema,   // 1 - decay; 1 for the first (Polyak; torch.optim.swa_utils.get_ema_avg_fn)
  mean,  // 1 / (n + 1) (Izmailov et al. 2018, SWA)
};
struct AverageOptions {
  Average kind = Average::none;
  double decay = 0.999;
  std::int64_t start = 0;  // first update that is averaged
};
// Dynamic loss scaling for Precision::f16 (Micikevicius et al. 2018, section 3.2). The loss is multiplied by the scale
// before differentiation and the gradients are divided by it, so that small gradients do not underflow. A non-finite
// update is skipped and halves the scale. It counts as bad only when the scale is already `lowest`. Scales are powers
// of two, so scaling never rounds.
struct LossScaleOptions {
  double initial = 65536;
  std::int64_t growth_every = 2000;  // double the scale after this many finite updates in a row, up to 2^24
  double lowest = 1;
};
// What to do when the loss or a gradient is not finite. Such an update never changes parameters, optimizer slots,
// averages or states.
enum class OnBad : std::uint8_t {
  skip,  // continue with the next batch; stop after max_bad_updates in a row
  stop,  // stop at the first one
  // After max_bad_updates in a row, return to the last checkpoint and halve the learning rate. After max_rollbacks such
  // returns, stop.
  rollback,
};

struct TrainerOptions {
  OptimizerOptions optimizer;
  std::vector<ParameterGroup> groups;
  ScheduleOptions schedule;
  ClipOptions clip;
  AverageOptions average;
  Precision precision = Precision::f32;
  LossScaleOptions loss_scale;
  std::size_t memory_limit = 0;      // bytes that one plan may need, see PlanOptions; 0: no limit
  std::int64_t chunk_steps = 0;      // steps of the loops that stacked layers overlap by, see PlanOptions; 0: whole
  std::int64_t accumulate = 1;       // batches per update; the gradient is that of one large batch
  std::int64_t max_updates = 1000;
  std::int64_t epochs = 0;           // if > 0, max_updates = epochs * batches per epoch
  std::int64_t stop_at = 0;  // if > 0, stop after this update; the schedule still spans max_updates
  double max_minutes = 0;    // if > 0, stop after this many minutes
  std::int64_t validate_every = 100;  // updates between validations
  std::int64_t validation_batches = 0;  // maximum per validation; 0: all
  // stop after this many validations without improvement and restore the best parameters; 0: off
  std::int64_t patience = 0;
  std::int64_t checkpoint_every = 100;  // updates between checkpoints
  std::int64_t keep = 0;             // keep this many recent checkpoints as checkpoint-UPDATE.safetensors
  std::int64_t log_every = 10;  // updates between reports
  std::int64_t watch_every = 0;      // updates between statistics of parameters and loops (Watch); 0: off, at no cost
  // If > 0, fit() first measures trial updates (one at least), then undoes them, for at most these seconds and 5 % of
  // the run (10 % until the backend has chosen its schedules, which the run keeps), of a short run 20 % and 0.3 s.
  double estimate_seconds = 0;
  std::function<void(const RunEstimate&)> estimated;  // called before the first update
  // Bytes that the whole run may take; 0: the memory of the device, or what is free on the host. fit() checks it before
  // the first update and throws Error(memory), which names the largest parts.
  std::size_t machine_memory = 0;
  int prefetch = 2;  // updates whose batches a second thread prepares in advance; 0: none
  OnBad on_bad = OnBad::skip;        // when it stops the run, Error(numeric) names the first non-finite value
  std::int64_t max_bad_updates = 3;  // 0: never stop
  std::int64_t max_rollbacks = 5;  // rollback: stop after this many
  std::uint64_t seed = 0;
  // Folder for last.safetensors, best.safetensors and metrics.jsonl. Empty: write nothing.
  std::string folder;
  // Continue from last.safetensors, if it exists. The result is bit-identical to an uninterrupted run. If the file is
  // damaged, continue from the newest intact checkpoint.
  //
  // Throws Error(usage) when the checkpoint does not fit: another seed, data or optimizer, or more updates than this
  // run makes. Learning rate, schedule, limits and intervals may change.
  bool resume = false;
  // Called once before the first update, with the number of updates that a resumed run has already made, otherwise 0.
  // Not called when a resumed run has nothing left to do.
  std::function<void(std::int64_t)> started;
  bool overwrite = false;  // if both are false and the folder holds a run, throw Error(usage)
  std::map<std::string, std::string> metadata;        // stored in both files: the resolved config
  std::function<void(const std::string&)> warn;       // failed saves, skipped updates; empty: print to stderr
  StageReport stage;  // before each update, evaluated batch and compilation, in the caller's thread; keep it short
  Vfs* vfs = nullptr;                                 // null: disk()
};

}  // namespace unroll
