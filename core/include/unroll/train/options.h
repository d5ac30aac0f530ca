// SPDX-License-Identifier: Apache-2.0
// Options of training, which docs/training.md explains. The rows of k_options have their ranges and config keys
// (unroll/support/option.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/support/option.h"
#include "unroll/support/tensor.h"
#include "unroll/support/vfs.h"
#include "unroll/train/reports.h"

namespace unroll {

// The update rules are those of torch.optim, except lion (Chen et al. 2023).
struct OptimizerOptions {
  std::string name = "adam";
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double alpha = 0.99;
  double weight_decay = 0;
  bool decay_vectors = false;
};
template <>
inline constexpr auto k_options<OptimizerOptions> = std::array{
    option<&OptimizerOptions::name>({"train.optimizer", one_of("sgd|adam|adamw|rmsprop|adagrad|lion"), "optimizer"}),
    option<&OptimizerOptions::lr>({"train.lr", from(0), "learning rate", AtResume::free}),
    option<&OptimizerOptions::momentum>({"train.momentum", between(0, 0.999999), "sgd, rmsprop: momentum"},
                                        "train.optimizer = sgd|rmsprop"),
    option<&OptimizerOptions::nesterov>({"train.nesterov", any_value, "sgd: Nesterov momentum"},
                                        "train.optimizer = sgd and train.momentum > 0"),
    option<&OptimizerOptions::beta1>(
        {"train.beta1", between(0, 0.999999), "adam, adamw, lion: decay of the first moment", AtResume::free},
        "train.optimizer = adam|adamw|lion"),
    option<&OptimizerOptions::beta2>(
        {"train.beta2", between(0, 0.999999999), "adam, adamw, lion: decay of the second moment", AtResume::free},
        "train.optimizer = adam|adamw|lion"),
    option<&OptimizerOptions::epsilon>(
        {"train.epsilon", between(1e-30, 1), "adaptive optimizers: added to the denominator", AtResume::free},
        "train.optimizer = adam|adamw|rmsprop|adagrad"),
    option<&OptimizerOptions::alpha>(
        {"train.alpha", between(0, 0.999999999), "rmsprop: decay of the squared gradient", AtResume::free},
        "train.optimizer = rmsprop"),
    option<&OptimizerOptions::weight_decay>(
        {"train.weight_decay", between(0, 10),
         "L2 penalty; decoupled for adamw and lion; not applied to biases and norm gains", AtResume::free}),
    option<&OptimizerOptions::decay_vectors>(
        {"train.decay_vectors", any_value, "apply weight decay to biases and norm gains too", AtResume::free},
        "train.weight_decay > 0"),
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
  //   plateau          multiply by `factor` at every `plateau_patience`-th validation in a row without a new best loss:
  //                    ReduceLROnPlateau with patience = plateau_patience - 1 and threshold = 0
  //   one-cycle        rise from lr / 25 over the first 30 %, then fall to lr * final_fraction in the last update, both
  //                    cosine (Smith & Topin 2018, OneCycleLR with final_div_factor = 1 / (25 final_fraction))
  std::string name = "constant";
  std::int64_t warmup = 0;
  double final_fraction = 0;  // with a cool-down: of the schedule's lr
  std::int64_t cooldown = 0;
  double factor = 0.5;
  double min_lr = 0;
  std::int64_t step_every = 1000;
  std::int64_t plateau_patience = 5;
};
template <>
inline constexpr auto k_options<ScheduleOptions> = std::array{
    option<&ScheduleOptions::name>({"train.schedule", one_of("constant|linear|cosine|step|plateau|one-cycle"),
                                    "learning rate schedule between warm-up and cool-down", AtResume::free}),
    option<&ScheduleOptions::warmup>(
        {"train.warmup", from(0), "updates in which the learning rate rises linearly from 0", AtResume::free}),
    option<&ScheduleOptions::final_fraction>(
        {"train.final_fraction", between(0, 1),
         "linear, cosine, one-cycle, cool-down: final learning rate / initial one", AtResume::free},
        "train.schedule = linear|cosine|one-cycle or train.cooldown > 0"),
    option<&ScheduleOptions::cooldown>(
        {"train.cooldown", from(0), "last updates, in which the learning rate falls linearly", AtResume::free}),
    option<&ScheduleOptions::factor>(
        {"train.lr_factor", between(1e-6, 1), "step, plateau: factor for the learning rate", AtResume::free},
        "train.schedule = step|plateau"),
    option<&ScheduleOptions::min_lr>(
        {"train.min_lr", from(0), "lowest learning rate of the schedule between warm-up and cool-down",
         AtResume::free},
        "train.schedule = linear|cosine|step|plateau|one-cycle"),
    option<&ScheduleOptions::step_every>(
        {"train.step_every", from(1), "step: updates between changes", AtResume::free}, "train.schedule = step"),
    option<&ScheduleOptions::plateau_patience>(
        {"train.plateau_patience", from(1), "plateau: validations without improvement before the learning rate falls",
         AtResume::free},
        "train.schedule = plateau"),
};
// Gradient clipping, applied in this order. 0 turns a method off.
struct ClipOptions {
  double value = 0;
  // Adaptive gradient clipping (Brock et al. 2021, eq. 3): clip the norm of each unit (row of a matrix) to `adaptive`
  // times the norm of its weights, with at least 1e-3 for the latter. Vectors are not clipped.
  double adaptive = 0;
  double norm = 1;  // as torch.nn.utils.clip_grad_norm_
};
template <>
inline constexpr auto k_options<ClipOptions> = std::array{
    option<&ClipOptions::norm>(
        {"train.clip_norm", between(0, 1e9), "maximum global norm of the gradient; 0: off", AtResume::free}),
    option<&ClipOptions::value>(
        {"train.clip_value", between(0, 1e9), "maximum absolute value of a gradient element; 0: off", AtResume::free}),
    option<&ClipOptions::adaptive>(
        {"train.clip_adaptive", between(0, 1e3),
         "adaptive clipping: maximum gradient norm / weight norm of a unit; 0: off; typical 0.01", AtResume::free}),
};
// Weight averaging: a second set of parameters, averaged over the updates. The average is validated, saved as
// best.safetensors and returned by Trainer::parameters(). After n averaged updates, the weight of the next one is:
enum class Average : std::uint8_t {
  none,
  ema,   // 1 - decay; 1 for the first (Polyak; torch.optim.swa_utils.get_ema_avg_fn)
  mean,  // 1 / (n + 1) (Izmailov et al. 2018, SWA)
};
struct AverageOptions {
  Average kind = Average::none;
  double decay = 0.999;
  std::int64_t start = 0;
};
template <>
inline constexpr auto k_options<AverageOptions> = std::array{
    option<&AverageOptions::kind>(
        {"train.average", one_of("none|ema|mean"),
         "weight averaging over updates; the average is validated and saved as best"}),
    option<&AverageOptions::decay>(
        {"train.average_decay", between(0, 0.9999999), "ema: decay of the average per update", AtResume::free},
        "train.average = ema"),
    option<&AverageOptions::start>(
        {"train.average_start", from(0), "first update that is averaged", AtResume::free}, "train.average = ema|mean"),
};
// Dynamic loss scaling for Precision::f16 (Micikevicius et al. 2018, section 3.2). The loss is multiplied by the scale
// before differentiation and the gradients are divided by it, so small gradients do not underflow. A non-finite update
// is skipped and halves the scale. It counts as bad only if the scale is already `lowest`. Scales are powers of two, so
// scaling never rounds.
struct LossScaleOptions {
  double initial = 65536;
  std::int64_t growth_every = 2000;  // up to 2^24
  double lowest = 1;
};
template <>
inline constexpr auto k_options<LossScaleOptions> = std::array{
    option<&LossScaleOptions::initial>(
        {"train.loss_scale", between(1, 16777216), "f16: initial loss scale, a power of two"},
        "train.precision = f16"),
    option<&LossScaleOptions::growth_every>(
        {"train.loss_scale_every", from(1), "f16: updates without overflow before the loss scale doubles",
         AtResume::free},
        "train.precision = f16"),
};
// The reaction to a loss or gradient that is not finite. Such an update never changes parameters, optimizer slots,
// averages or states.
enum class OnBad : std::uint8_t {
  skip,  // continue with the next batch; stop after max_bad_updates in a row
  stop,  // stop at the first one
  // After max_bad_updates in a row, return to the last checkpoint and halve the learning rate. Stop after max_rollbacks
  // such returns.
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
  std::size_t memory_limit = 0;  // maximum bytes of one plan, see PlanOptions; 0: no limit
  std::int64_t chunk_steps = 0;
  std::int64_t accumulate = 1;
  std::int64_t max_updates = 1000;
  std::int64_t epochs = 0;
  std::int64_t stop_at = 0;  // if > 0, stop after this update; the schedule still spans max_updates
  double max_minutes = 0;
  std::int64_t validate_every = 100;
  std::int64_t validation_batches = 0;
  std::int64_t patience = 0;  // the best parameters are restored
  std::int64_t checkpoint_every = 100;
  std::int64_t keep = 0;
  std::int64_t log_every = 10;
  std::int64_t watch_every = 0;  // statistics of parameters and loops (TrainingStatistics); 0: at no cost
  // If > 0, fit() first measures trial updates (one at least), then undoes them.
  double estimate_seconds = 0;
  std::function<void(const RunEstimate&)> estimated;  // called before the first update
  // Maximum bytes of the whole run; 0: the memory of the device, or the free memory of the host. fit() checks it before
  // the first update and throws Error(memory), which names the largest parts.
  std::size_t machine_memory = 0;
  int prefetch = 2;
  OnBad on_bad = OnBad::skip;  // if it stops the run, Error(numeric) names the first non-finite value
  std::int64_t max_bad_updates = 3;
  std::int64_t max_rollbacks = 5;
  std::uint64_t seed = 0;
  // Values that parameters start from instead of their initialization, by name: see unroll/tasks/transfer.h. A resumed
  // run does not read them. Throws Error(usage) on an unknown name, and Error(shape | type) on another type.
  TensorMap start = {};
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
  StageReport stage;  // called in the caller's thread before updates, evaluated batches, compilation; keep short
  Vfs* vfs = nullptr;                                 // null: disk()
};
template <>
inline constexpr auto k_options<TrainerOptions> = std::array{
    option<&TrainerOptions::precision>(
        {"train.precision", one_of("f32|tf32|bf16|f16"),
         "number formats by role: operands of products, and in bf16 and f16 what loops read and save. f16 scales the "
         "loss"}),
    option<&TrainerOptions::accumulate>(
        {"train.accumulate", between(1, 1e5),
         "batches per update (gradient accumulation): the gradient of `batch * accumulate` sequences"}),
    option<&TrainerOptions::max_updates>(
        {"train.max_updates", between(0, 2147483646), "total number of updates", AtResume::free},
        "train.epochs = 0"),
    option<&TrainerOptions::epochs>(
        {"train.epochs", between(0, 2147483646), "if set, max_updates is this number of passes over the training set",
         AtResume::free}),
    option<&TrainerOptions::max_minutes>(
        {"train.max_minutes", between(0, 1e6),
         "if set, stop after this many minutes; the run can be resumed; 0: no limit", AtResume::free}),
    option<&TrainerOptions::validate_every>(
        {"train.validate_every", from(0), "updates between validations; 0: never", AtResume::free}),
    option<&TrainerOptions::validation_batches>(
        {"train.validation_batches", from(0), "maximum batches per validation; 0: all", AtResume::free},
        "train.validate_every > 0"),
    option<&TrainerOptions::patience>(
        {"train.patience", from(0),
         "early stopping: stop after this many validations without improvement; 0: off", AtResume::free},
        "train.validate_every > 0"),
    option<&TrainerOptions::checkpoint_every>(
        {"train.checkpoint_every", from(0), "updates between checkpoints; 0: only at the end", AtResume::free}),
    option<&TrainerOptions::keep>(
        {"train.keep", between(0, 1e6), "number of recent checkpoints to keep as checkpoint-UPDATE.safetensors",
         AtResume::free}),
    option<&TrainerOptions::log_every>(
        {"train.log_every", from(0), "updates between reports; 0: none", AtResume::free}),
    option<&TrainerOptions::watch_every>(
        {"train.watch_every", from(0),
         "updates between training statistics (gradients, updates, saturated gates by layer); 0: off",
         AtResume::free}),
    option<&TrainerOptions::on_bad>(
        {"train.on_bad", one_of("skip|stop|rollback"),
         "what to do after a non-finite update: skip it, stop, or return to the last checkpoint with half the rate",
         AtResume::free}),
    option<&TrainerOptions::prefetch>(
        {"train.prefetch", between(0, 1024), "updates whose batches a second thread prepares in advance; 0: none",
         AtResume::free}),
    option<&TrainerOptions::max_bad_updates>(
        {"train.max_bad_updates", from(0),
         "skip, rollback: non-finite updates in a row before the run stops or returns; 0: no limit", AtResume::free},
        "train.on_bad = skip|rollback"),
    option<&TrainerOptions::max_rollbacks>(
        {"train.max_rollbacks", from(0), "rollback: maximum number of returns before the run stops", AtResume::free},
        "train.on_bad = rollback"),
    option<&TrainerOptions::seed>({"train.seed", from(0), "seed of all random numbers"}),
    option<&TrainerOptions::estimate_seconds>(
        {"run.estimate_seconds", between(0, 60),
         "time limit, in seconds, of the trial updates that estimate a run; those that count take at most 5 % of the "
         "run (of a short run 20 % and 0.3 seconds), those before the backend has chosen its schedules 10 %; 0: no "
         "estimate", AtResume::free}),
    option<&TrainerOptions::chunk_steps>(
        {"run.chunk_steps", between(0, 1e6),
         "steps after which the next layer may begin, so that stacked layers run at once on several threads; costs "
         "memory; 0: off"},
        "model.layers > 1"),
};

}  // namespace unroll
