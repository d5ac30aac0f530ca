// SPDX-License-Identifier: Apache-2.0
// Training tasks: data, model and loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "unroll/nn/scope.h"
#include "unroll/support/tensor.h"

namespace unroll {

// A state that the model carries from one batch to the next, such as the hidden state of a language model.
struct CarriedState {
  std::string name;  // Names the graph input "state.<name>". Zeros at the start of a stream.
  Type type;
  Value in;
  Value out;  // The value after the window. Detached: no gradient flows between windows.
};
// The form of a metric computed from r = total / count: r, sqrt(r) or e^r, times `scale`.
enum class MetricForm : std::uint8_t { ratio, root, exponential };
struct MetricValue {
  std::string name;  // "accuracy"
  Value total;       // A scalar, summed over batches. Or [K]: r is then the mean over all k with count[k] > 0.
  Value count;       // The same shape as `total`.
  MetricForm form = MetricForm::ratio;
  double scale = 1;  // Put units here, not into `total`, if their squares exceed f32.
};
// The result of Task::build.
struct TaskGraph {
  Value loss;                         // Scalar.
  // Scalar: the weight of this batch's loss in an average over batches, of a validation or of an update
  // (TrainerOptions::accumulate). If the loss is a mean, it is the count, such as the number of rows or tokens. It may
  // depend on the batch, not on parameters. Empty: each term x / n of the loss, such as a masked_mean, has the weight
  // n; other terms have the weight 1.
  Value weight;
  std::vector<MetricValue> metrics;
  std::vector<CarriedState> states;
  std::vector<std::pair<std::string, Value>> outputs = {};  // Predictions by name; Trainer::predict returns them.
  // Sums over batches that only Trainer::evaluate() computes: "confusion" f32[K,K], labels by predictions.
  std::vector<std::pair<std::string, Value>> counts = {};
};

enum class Split : std::uint8_t { train, validation, test };

struct Batch {
  TensorMap inputs;            // Keyed by graph input name.
  bool starts_stream = false;  // True resets the carried states to zero before this batch.
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
  // With S > 1 shards, batch i of the training set has rows of group i % S, and continues the states of batch i - S. An
  // update takes one batch of each shard: TrainerOptions::accumulate is S. Several ranks can train a task with carried
  // states only if it has shards.
  virtual std::int64_t shards() const { return 1; }
  // Number of shards for validation and test batches. Several ranks share the evaluation of a task with carried states
  // by these shards.
  virtual std::int64_t evaluation_shards(Split) const { return 1; }
  // Returns a batch that shows names and types of the inputs; the parameters' shapes follow from it. This is the first
  // batch of the first nonempty split. Throws Error(usage) when all splits are empty.
  virtual Batch example(std::uint64_t seed) const;
  // Metadata stored with the model, so that a checkpoint is sufficient to use it: vocabulary, normalizer, sizes.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
  // Results of the baselines on a split: method -> metric -> value. They are fitted to the training set.
  virtual std::map<std::string, std::map<std::string, double>> baselines(Split) const { return {}; }
  // Notes on the interpretation of the data files, one line of text each: "data.csv: 900 rows, header found, ...".
  virtual std::vector<std::string> notes() const { return {}; }
  // Warnings about data that may have been misread, such as dates or a header: one line of text each, with the setting
  // that decides. check_data reports them as findings of the check "format".
  virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace unroll
