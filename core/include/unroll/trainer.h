// SPDX-License-Identifier: Apache-2.0
// Training. A Task defines the data, the model and the loss. The Trainer compiles a whole update (forward pass, loss,
// gradients, clipping, finite check, optimizer) into one executable and drives it. docs/training.md explains the
// options.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unroll/backend.h"
#include "unroll/result.h"
#include "unroll/run.h"
#include "unroll/safetensors.h"
#include "unroll/scope.h"
#include "unroll/tensor.h"
#include "unroll/vfs.h"

namespace unroll {

// A state that the model carries from one batch to the next, such as the hidden state of a language model.
struct CarriedState {
  std::string name;  // Names the graph input "state.<name>". Zeros at the start of a stream.
  Type type;
  Value in;
  Value out;  // The value after the window. Detached: no gradient flows between windows.
};
// How to compute a metric from r = total / count: r itself, sqrt(r) or e^r.
enum class MetricForm : std::uint8_t { ratio, root, exponential };
struct MetricValue {
  std::string name;  // "accuracy"
  Value total;       // A scalar, summed over batches. Or [K]: r is then the mean over all k with count[k] > 0.
  Value count;       // The same shape as `total`.
  MetricForm form = MetricForm::ratio;
};
// What Task::build returns.
struct TaskGraph {
  Value loss;                         // Scalar.
  Value weight;                       // Scalar: the weight of this batch's loss in an average. Empty: 1.
  std::vector<MetricValue> metrics;
  std::vector<CarriedState> states;
  std::vector<std::pair<std::string, Value>> outputs = {};  // Predictions by name; Trainer::predict returns them.
  // Sums over batches that only Trainer::evaluate() computes: "confusion" f32[K,K], labels by predictions.
  std::vector<std::pair<std::string, Value>> counts = {};
};

enum class Split : std::uint8_t { train, validation, test };

struct Batch {
  TensorMap inputs;            // Keyed by graph input name.
  bool starts_stream = false;  // Reset the carried states to zero before this batch.
};

// Batches are a pure function of (seed, epoch, index), so a checkpoint stores no generator state. With
// TrainerOptions::prefetch a second thread calls batch() for training batches, one call at a time, while an update
// runs. Validation batches are made in the caller's thread.
class UNROLL_API Task {
 public:
  virtual ~Task() = default;
  // Appends the model and the loss. `like` is a batch with the shapes to build for. Each entry of like.inputs becomes
  // one graph input.
  virtual TaskGraph build(Scope& scope, const Batch& like) const = 0;
  virtual std::int64_t n_batches(Split split) const = 0;
  virtual Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const = 0;
  // With S > 1 shards, batch i of the training set has rows of group i % S, and continues the states that batch i - S
  // left. An update takes one batch of each shard: TrainerOptions::accumulate is S. Several ranks can train a task that
  // carries states only if it has shards.
  virtual std::int64_t shards() const { return 1; }
  // The same for batches of the other splits, with which no update has to do. Several ranks share the evaluation of a
  // task that carries states by these.
  virtual std::int64_t evaluation_shards(Split) const { return 1; }
  // A batch that shows names and types of the inputs; the parameters' shapes follow from it. The first batch of the
  // first split that has one. Throws Error(usage) when no split has one.
  virtual Batch example(std::uint64_t seed) const;
  // Stored with the model, so that a checkpoint is sufficient to use it: vocabulary, normalizer, sizes.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
  // Results of simple reference methods on a split: method -> metric -> value. They are fitted to the training set.
  virtual std::map<std::string, std::map<std::string, double>> baselines(Split) const { return {}; }
  // Properties detected in the data files, one line of text each: "data.csv: 900 rows, header found, ...".
  virtual std::vector<std::string> notes() const { return {}; }
};

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
  std::int64_t updates = 0, validations = 0;  // still to run
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
// Training statistics of one update. A second executable computes them and changes nothing.
struct ParameterWatch {
  double gradient_norm;  // before clipping
  double update_ratio;   // norm of the change / norm of the parameter; about 1e-3 is normal
};
struct LoopWatch {
  double saturated;  // share of gates outside [0.1, 0.9] and of tanh outputs outside [-0.9, 0.9]
  double dead;       // share of tanh and relu units stuck at one end of their range in every step and row
};
struct Watch {
  std::int64_t update = 0;
  std::map<std::string, ParameterWatch> parameters;  // by parameter name; frozen ones are left out
  std::map<std::string, LoopWatch> loops;            // recurrent layers by direction: "l0", "encoder.l1_reverse"
};
// A symptom of a run with its evidence and remedies, reported once (table in docs/training.md).
struct Advice {
  std::string symptom;  // "overfitting"
  std::string text;
};
// What fit() reports every log_every updates and after each validation.
struct Progress {
  std::int64_t update;
  std::int64_t max_updates;
  double loss;           // mean since the last report
  double lr;
  double gradient_norm;
  std::optional<double> loss_scale;  // with Precision::f16
  double updates_per_second;
  double items = 0;  // items the loss averages over since the last report: tokens of a language model, otherwise rows
  double data_wait = 0;  // share of the time since the last report spent waiting for batches
  std::map<std::string, double> metrics;
  std::optional<double> validation_loss;  // set when this report follows a validation
  std::map<std::string, double> validation_metrics;
  bool best = false;
  std::int64_t skipped_updates = 0;
  std::optional<Watch> watch;  // the latest since the last report
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
  double estimated_seconds = 0;  // the estimate for the part that was run; 0: no estimate
  bool interrupted = false;     // stopped by stop() or by a limit
  bool out_of_time = false;     // stopped by max_minutes
  bool out_of_patience = false;  // stopped by patience
};

struct EvaluateResult {
  double loss = 0;
  std::map<std::string, double> metrics;
  TensorMap counts;  // f64, of TaskGraph::counts
};
// The result of one optimizer step of a training loop of your own.
struct UpdateResult {
  std::int64_t update = 0;   // its number, from 1
  double loss = 0;           // of the batch, before the step; NaN when the update was skipped
  double lr = 0;
  double gradient_norm = 0;  // of all gradients together, before clipping
  bool skipped = false;      // loss or gradients were not finite: nothing changed
  std::map<std::string, double> metrics = {};
};

// Reads a model from last.safetensors, best.safetensors or any other file of parameters, such as a PyTorch state_dict.
// Returns parameters and metadata; optimizer state in a checkpoint is left out. Throws Error(input_file) when the file
// is damaged.
UNROLL_API TensorFile load_model(const std::string& path, Vfs& vfs = disk());
UNROLL_API TensorFile parse_model(std::span<const std::byte> bytes, const std::string& name);  // the same, in memory
UNROLL_API Result<TensorFile> try_load_model(const std::string& path, Vfs& vfs = disk()) noexcept;

class UNROLL_API Trainer {
 public:
  // The backend must outlive the trainer.
  Trainer(std::shared_ptr<const Task> task, Backend& backend, TrainerOptions options);
  static Result<Trainer> try_create(std::shared_ptr<const Task> task, Backend& backend,
                                    TrainerOptions options) noexcept;
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  // Trains until max_updates, a limit, or until stop() returns true; stop() is called between updates. Saves, then
  // returns. Throws Error(numeric) when on_bad stops the run, and Error(storage) at the end when the last save failed.
  TrainResult fit(const std::function<void(const Progress&)>& report = {}, const std::function<bool()>& stop = {});
  // A training loop of your own. One update is one optimizer step: forward pass, gradients, clipping, optimizer. With
  // the batches of fit() it computes the same bits as fit(). Without `lr`, the options' schedule decides.
  // Options of reports, validation, checkpoints and the folder are those of fit() and have no effect here.
  // Throws Error(numeric) where on_bad stops the run, Error(usage | shape | type) on a batch that does not fit.
  UpdateResult update(const Batch& batch, std::optional<double> lr = {});
  // One update with the gradient of all batches as one: at most `accumulate` of them.
  UpdateResult update(std::span<const Batch> batches, std::optional<double> lr = {});
  std::int64_t updates() const;  // made so far
  // Loss and metrics of your own batches, without dropout. Carried states continue from the batch before unless
  // Batch::starts_stream is set.
  EvaluateResult evaluate(const Batch& batch);
  EvaluateResult evaluate(std::span<const Batch> batches);
  // TaskGraph::outputs for a batch, by name, without dropout. The batch needs no targets when the task builds its
  // outputs without them.
  TensorMap predict(const Batch& batch);
  // Everything that training needs to continue bit for bit, in one file: parameters, optimizer state, averages, carried
  // states, number of updates. load_model() reads the parameters from it. Atomic. Throws Error(storage).
  void save(const std::string& path);
  // Continues from a file of save(), or from last.safetensors of fit(). Throws Error(input_file) when the file does not
  // fit the model or the optimizer, Error(usage) when seed, data or accumulate differ.
  void load(const std::string& path);

  EvaluateResult evaluate(Split split);
  // Parameters in host memory, by PyTorch name. With weight averaging: the averages.
  TensorMap parameters() const;
  void set_parameters(const TensorMap& parameters);  // throws Error(input_file) on missing, unknown or misshapen ones

 private:
  struct State;
  std::unique_ptr<State> state_;
};

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

// Learning rate range test (Smith 2017): updates with an exponentially growing rate. It writes no files and changes no
// trainer.
struct LrSearchOptions {
  double from = 1e-6, to = 1;
  std::int64_t updates = 100;
};
struct LrPoint {
  double lr, loss, smoothed;
};
struct LrSearch {
  std::vector<LrPoint> points;  // ends when the smoothed loss exceeds 4x its minimum or is not finite
  double suggested = 0;         // the rate at which the loss falls fastest
};
// Throws Error(numeric) when the loss is not finite at the first update.
UNROLL_API LrSearch find_lr(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
                            const LrSearchOptions& search = {}, const std::function<void(const LrPoint&)>& report = {});

}  // namespace unroll
