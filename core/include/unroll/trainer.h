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
struct MetricValue {
  std::string name;  // "accuracy"
  Value total;       // scalar, summed over batches
  Value count;       // scalar; the metric is total / count
  bool root = false;  // the metric is sqrt(total / count)
};
struct TaskGraph {
  Value loss;                         // scalar
  Value weight;                       // scalar: what the loss of this batch counts in an average; empty: 1
  std::vector<MetricValue> metrics;
  std::vector<CarriedState> states;
};

enum class Split : std::uint8_t { train, validation, test };

struct Batch {
  TensorMap inputs;            // by graph input name
  bool starts_stream = false;  // carried states are zeroed before this batch
};

// Data order is a pure function of (seed, epoch, index): no generator state to save.
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
  std::string name = "adam";  // sgd, adam, adamw, rmsprop, adagrad
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double alpha = 0.99;  // rmsprop
  double weight_decay = 0;
};
struct ScheduleOptions {
  std::string name = "constant";  // constant, cosine
  std::int64_t warmup = 0;        // updates
  double final_fraction = 0;      // cosine: lr at the end / lr
};
struct TrainerOptions {
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  double clip_norm = 1;              // 0: off
  std::int64_t max_updates = 1000;
  std::int64_t epochs = 0;           // when set, max_updates is epochs * batches of an epoch
  std::int64_t stop_at = 0;  // when set, stops after this update as stop() would; the schedule still spans max_updates
  std::int64_t validate_every = 100;
  std::int64_t validation_batches = 0;  // at most so many; 0: all
  std::int64_t patience = 0;         // stop after so many validations without a better one; 0: off
  std::int64_t checkpoint_every = 100;
  std::int64_t log_every = 10;
  std::int64_t max_bad_updates = 3;  // consecutive non-finite updates before Error(numeric)
  std::uint64_t seed = 0;
  // Gets last.safetensors, best.safetensors and metrics.jsonl; empty: nothing is written.
  std::string folder;
  bool resume = false;     // go on from last.safetensors where there is one; the result is bit-equal
  bool overwrite = false;  // without it and resume, a folder that holds a run is refused with Error(usage)
  std::map<std::string, std::string> metadata;        // stored in both files: the resolved config
  std::function<void(const std::string&)> warn;       // a failed save, a skipped update; empty: stderr
  Vfs* vfs = nullptr;                                 // null: disk()
};
struct Progress {
  std::int64_t update;
  std::int64_t max_updates;
  double loss;           // mean since the last report
  double lr;
  double gradient_norm;
  double updates_per_second;
  std::map<std::string, double> metrics;
  std::optional<double> validation_loss;  // when this report follows a validation
  std::map<std::string, double> validation_metrics;
  bool best = false;
};
struct TrainResult {
  std::int64_t updates = 0;
  double best_validation_loss = 0;
  double last_validation_loss = 0;
  std::map<std::string, double> validation_metrics;  // of the best
  std::int64_t skipped_updates = 0;
  bool interrupted = false;     // stop() said so
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
  // after max_bad_updates, and Error(storage) at the end when the last save failed.
  TrainResult fit(const std::function<void(const Progress&)>& report = {}, const std::function<bool()>& stop = {});
  EvaluateResult evaluate(Split split);
  // Parameters on the host, by PyTorch name.
  TensorMap parameters() const;
  void set_parameters(const TensorMap& parameters);  // throws Error(input_file) on missing, unknown or misshapen ones

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unroll
