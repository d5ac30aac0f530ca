// SPDX-License-Identifier: Apache-2.0
// The trainer: orchestration around one executable that does a whole update (forward, loss, gradients, clipping,
// finite check, optimiser). A task says what is learnt; the trainer does not know what it is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unroll/backend.h"
#include "unroll/model.h"
#include "unroll/run.h"
#include "unroll/safetensors.h"
#include "unroll/tensor.h"
#include "unroll/vfs.h"

namespace unroll {

struct CarriedState {
  std::string name;  // graph input "state.<name>"; zeros where a stream starts
  Type type;
  Value in;
  Value out;  // its value after the window; detached: no gradient flows from one window to the next
};
// How a metric follows from r = total / count: as r, sqrt(r) or e^r.
enum class MetricForm : std::uint8_t { ratio, root, exponential };
struct MetricValue {
  std::string name;  // "accuracy"
  Value total;       // scalar, summed over batches; or [K], and r is the mean over those k whose count is not 0
  Value count;       // of total's shape
  MetricForm form = MetricForm::ratio;
};
struct TaskGraph {
  Value loss;                         // scalar
  Value weight;                       // scalar: what the loss of this batch counts in an average; empty: 1
  std::vector<MetricValue> metrics;
  std::vector<CarriedState> states;
  std::vector<std::pair<std::string, Value>> outputs = {};  // what else is worth comparing between backends
};

enum class Split : std::uint8_t { train, validation, test };

struct Batch {
  TensorMap inputs;            // by graph input name
  bool starts_stream = false;  // carried states are zeroed before this batch
};

// Data order is a pure function of (seed, epoch, index): no generator state to save. batch() is called from another
// thread while an update runs (TrainerOptions::prefetch), one call at a time for training, and from the caller's for
// validation.
class UNROLL_API Task {
 public:
  virtual ~Task() = default;
  // Appends the model and loss for batches of the shapes in `like` (one input per entry of like.inputs).
  virtual TaskGraph build(Scope& scope, const Batch& like) const = 0;
  virtual std::int64_t n_batches(Split split) const = 0;
  virtual Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const = 0;
  // Stored with the model so that a checkpoint is enough to use it: vocabulary, scaler, sizes.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
  // What simple methods reach on the test split: method -> metric -> value.
  virtual std::map<std::string, std::map<std::string, double>> baselines() const { return {}; }
};

struct OptimizerOptions {
  std::string name = "adam";  // sgd, adam, adamw, rmsprop, adagrad, lion
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double alpha = 0.99;  // rmsprop
  double weight_decay = 0;
  bool decay_vectors = false;  // weight decay also for parameters of rank below 2: biases, gains of norms
};
// Parameters that are trained in another way. The first group that matches a name is the one.
struct ParameterGroup {
  std::string match;                   // of a whole name; * stands for any characters, as in "embedding.*"
  double lr_scale = 1;                 // times the learning rate; 0: the parameters stay as they are
  std::optional<double> weight_decay = {};  // in the place of the optimiser's, whatever the rank
};
// The learning rate: a rise (warm-up), then a shape, and over the last updates the shape times a fall (cool-down). What
// lr falls to would be reached one update after the last one.
struct ScheduleOptions {
  // constant
  // linear, cosine   from lr to lr * final_fraction
  // step             times `factor` after every `step_every` updates (torch.optim.lr_scheduler.StepLR)
  // plateau          times `factor` after `plateau_patience` validations without a better one (ReduceLROnPlateau)
  // one-cycle        half a cosine up from lr / 25 over the first 30 %, then down (Smith & Topin 2018, OneCycleLR)
  std::string name = "constant";
  std::int64_t warmup = 0;    // updates over which lr rises linearly from 0
  double final_fraction = 0;  // linear, cosine, one-cycle: lr at the end / lr; cool-down: of what it would be
  std::int64_t cooldown = 0;  // updates
  double factor = 0.5;        // step, plateau
  std::int64_t step_every = 1000;
  std::int64_t plateau_patience = 5;
};
// Applied in this order to the gradients of an update. 0: off.
struct ClipOptions {
  double value = 0;     // each element to [-value, value]
  double adaptive = 0;  // each unit (row of a matrix): its norm to at most `adaptive` of that of its weights, these not
                        // taken below 1e-3; vectors are left as they are (Brock et al. 2021, eq. 3)
  double norm = 1;      // the norm of all gradients together, as torch.nn.utils.clip_grad_norm_
};
// A second set of parameters, the mean of those that the updates left. It is what is validated, saved as
// best.safetensors and given by Trainer::parameters(). Of n parameters averaged so far, the next one counts
enum class Average : std::uint8_t {
  none,
  ema,   // 1 - decay, and 1 the first time (Polyak; torch.optim.swa_utils.get_ema_avg_fn)
  mean,  // 1 / (n + 1) (Izmailov et al. 2018, SWA)
};
struct AverageOptions {
  Average kind = Average::none;
  double decay = 0.999;
  std::int64_t start = 0;  // updates before it are not averaged
};
// With Precision::f16 the loss is multiplied by a scale before differentiation and the gradients divided by it, so that
// small ones do not vanish (Micikevicius et al. 2018, section 3.2). An update that is not finite is skipped and halves
// the scale; only at `lowest` it counts as bad. All of it is part of the update's graph. Powers of two, so that nothing
// is rounded.
struct LossScaleOptions {
  double initial = 65536;
  std::int64_t growth_every = 2000;  // updates without overflow, after which the scale doubles, up to 2^24
  double lowest = 1;
};
// An update whose loss or gradients are not finite never changes parameters, slots, averages or states. What then:
enum class OnBad : std::uint8_t {
  skip,      // go on with the next batch; stop after max_bad_updates in a row
  stop,      // at the first one
  rollback,  // after max_bad_updates in a row go back to the last checkpoint with half the learning rate; stop when
             // that was done max_rollbacks times
};
// What a run will take, said before its first update: memory from the plans, time from updates that were made on trial.
struct RunEstimate {
  struct Part {
    std::string name;  // "parameters", "arena"
    std::size_t bytes;
  };
  std::vector<Part> memory;  // largest first
  std::size_t bytes = 0;
  std::size_t process_bytes = 0;       // of these: what the process holds besides the run
  std::size_t saved_bytes = 0;         // of the arena: what the forward pass keeps for the backward one
  std::int64_t updates = 0, validations = 0;  // that are still to be made
  double update_seconds = 0, validation_seconds = 0;  // of one; 0: not tried
  double compile_seconds = 0;  // of programs for batches of shapes that the trial did not meet
  double seconds() const {
    return static_cast<double>(updates) * update_seconds + static_cast<double>(validations) * validation_seconds +
           compile_seconds;
  }
};
struct TrainerOptions {
  OptimizerOptions optimizer;
  std::vector<ParameterGroup> groups;
  ScheduleOptions schedule;
  ClipOptions clip;
  AverageOptions average;
  Precision precision = Precision::f32;
  LossScaleOptions loss_scale;
  std::size_t memory_limit = 0;      // bytes that an update's or an evaluation's plan may need, see PlanOptions; 0: any
  std::int64_t accumulate = 1;       // batches of an update: the gradient is that of all of them as one batch
  std::int64_t max_updates = 1000;
  std::int64_t epochs = 0;           // when set, max_updates is epochs * batches of an epoch
  std::int64_t stop_at = 0;  // when set, stops after this update as stop() would; the schedule still spans max_updates
  double max_minutes = 0;    // when set, fit() stops after so many as stop() would; 0: no limit
  std::int64_t validate_every = 100;
  std::int64_t validation_batches = 0;  // at most so many; 0: all
  std::int64_t patience = 0;  // stop after so many validations without a better one, with the best parameters; 0: off
  std::int64_t checkpoint_every = 100;
  std::int64_t keep = 0;             // of the last so many checkpoints each stays as checkpoint-UPDATE.safetensors
  std::int64_t log_every = 10;
  std::int64_t watch_every = 0;      // updates between statistics of parameters and loops (Watch); 0: never, at no cost
  // Above 0 fit() first makes updates on trial for at most so long, a twentieth of the run, and undoes them.
  double estimate_seconds = 0;
  std::function<void(const RunEstimate&)> estimated;  // before the first update
  // Bytes that the run may take in all, before it begins; 0: what the machine has free. Error(memory) names the
  // largest.
  std::size_t machine_memory = 0;
  int prefetch = 2;  // updates whose batches are made ahead, in a thread of their own; 0: none
  OnBad on_bad = OnBad::skip;        // where it stops: Error(numeric) that names the first value that was not finite
  std::int64_t max_bad_updates = 3;  // 0: never stop
  std::int64_t max_rollbacks = 5;
  std::uint64_t seed = 0;
  // Gets last.safetensors, best.safetensors and metrics.jsonl; empty: nothing is written.
  std::string folder;
  // Go on from last.safetensors where there is one; the result is bit-equal. Where that is damaged, from the newest
  // kept checkpoint that is whole.
  bool resume = false;
  bool overwrite = false;  // without it and resume, a folder that holds a run is refused with Error(usage)
  std::map<std::string, std::string> metadata;        // stored in both files: the resolved config
  std::function<void(const std::string&)> warn;       // a failed save, a skipped update; empty: stderr
  Vfs* vfs = nullptr;                                 // null: disk()
};
// What an update was about to do, taken from a second executable that changes nothing.
struct ParameterWatch {
  double gradient_norm;  // before any limit
  double update_ratio;   // norm of the change / norm of the parameter; 1e-3 is usual
};
struct LoopWatch {
  double saturated;  // share of gates below 0.1 or above 0.9 and of tanh beyond 0.9
  double dead;       // share of the units of tanh and relu that are at one end in every step and row
};
struct Watch {
  std::int64_t update = 0;
  std::map<std::string, ParameterWatch> parameters;  // trained ones
  std::map<std::string, LoopWatch> loops;            // "l0", "encoder.l1_reverse": recurrent layers by direction
};
// A symptom that a run shows, said once: how it was recognised, and what helps (the table in docs/training.md).
struct Advice {
  std::string symptom;  // "overfitting"
  std::string text;
};
struct Progress {
  std::int64_t update;
  std::int64_t max_updates;
  double loss;           // mean since the last report
  double lr;
  double gradient_norm;
  std::optional<double> loss_scale;  // with Precision::f16
  double updates_per_second;
  double items = 0;  // what the loss is the mean of since the last report: tokens of a language model, rows of others
  double data_wait = 0;  // share of the time since the last report that updates waited for their batches
  std::map<std::string, double> metrics;
  std::optional<double> validation_loss;  // when this report follows a validation
  std::map<std::string, double> validation_metrics;
  bool best = false;
  std::int64_t skipped_updates = 0;
  std::optional<Watch> watch;  // the last one since the last report
  std::vector<Advice> advice;  // usually none
};
struct TrainResult {
  std::int64_t updates = 0;
  double best_validation_loss = 0;
  double last_validation_loss = 0;
  std::map<std::string, double> validation_metrics;  // of the best
  std::int64_t skipped_updates = 0;
  std::int64_t rollbacks = 0;
  double data_wait = 0;         // share of the training time, validations apart
  double seconds = 0;            // from the first update on
  double estimated_seconds = 0;  // of what was done of the run, by the estimate before it; 0: there was none
  bool interrupted = false;     // stop() said so, or a limit
  bool out_of_time = false;     // max_minutes was the limit
  bool out_of_patience = false;
};

struct EvaluateResult {
  double loss = 0;
  std::map<std::string, double> metrics;
};

// Reads last.safetensors, best.safetensors or any other file of parameters, checks its digest where it has one and
// keeps the parameters and the metadata.
UNROLL_API TensorFile load_model(const std::string& path, Vfs& vfs = disk());

class UNROLL_API Trainer {
 public:
  Trainer(std::shared_ptr<const Task> task, Backend& backend, TrainerOptions options);
  ~Trainer();

  // Runs until max_updates or until stop() says so (asked between updates). Saves and returns. Throws Error(numeric)
  // where on_bad stops the run, and Error(storage) at the end when the last save failed.
  TrainResult fit(const std::function<void(const Progress&)>& report = {}, const std::function<bool()>& stop = {});
  EvaluateResult evaluate(Split split);
  // Parameters on the host, by PyTorch name; the averaged ones when the options ask for an average.
  TensorMap parameters() const;
  void set_parameters(const TensorMap& parameters);  // throws Error(input_file) on missing, unknown or misshapen ones

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether a run that stops in its middle and is resumed leaves the same bytes as one that is not: a task whose batches
// are no function of (seed, epoch, index) does not, nor does one with state of its own.
struct ResumeCheck {
  std::int64_t updates = 0, stopped_after = 0;
  std::vector<std::string> differences;  // "last.safetensors: 'w' differs first at [3]: 0.5, resumed 0.25"; none: equal
};
// Both runs are of `updates` updates and are left in folder/straight and folder/resumed. Reports, validations and
// checkpoints come often enough for some to lie before and after the stop.
UNROLL_API ResumeCheck verify_resume(const std::shared_ptr<const Task>& task, Backend& backend,
                                     const TrainerOptions& options, std::int64_t updates, const std::string& folder);

// What a precision does to a run: its first updates in the options' precision and, from the same seed on the same data,
// in f32.
struct PrecisionCheck {
  struct Point {
    std::int64_t update;
    double f32, own;  // smoothed training losses; NaN where a run had stopped
  };
  std::vector<Point> points;
  double largest = 0;           // |own - f32| / |f32|, of the points
  std::int64_t largest_at = 0;  // update
  std::int64_t skipped_updates = 0;  // in the own precision
  std::string failure;          // what stopped the run in the own precision, empty: nothing
  bool agrees = false;          // nothing did, and `largest` is within the tolerance
};
// Throws Error(usage) when the options' precision is f32, Error(numeric) when the run in f32 stops.
UNROLL_API PrecisionCheck check_precision(const std::shared_ptr<const Task>& task, Backend& backend,
                                          const TrainerOptions& options, std::int64_t updates, double tolerance);

// The learning rate range test: updates whose rate grows exponentially. Nothing is written and no trainer is changed.
struct LrSearchOptions {
  double from = 1e-6, to = 1;
  std::int64_t updates = 100;
};
struct LrPoint {
  double lr, loss, smoothed;
};
struct LrSearch {
  std::vector<LrPoint> points;  // up to where the smoothed loss was four times its best, or not finite
  double suggested = 0;         // where the loss falls fastest
};
// Throws Error(numeric) when the loss is not finite from the start.
UNROLL_API LrSearch find_lr(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
                            const LrSearchOptions& search = {}, const std::function<void(const LrPoint&)>& report = {});

}  // namespace unroll
