// SPDX-License-Identifier: Apache-2.0
// A dataset of tensors in memory: named fields, splits, shuffling and batches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "unroll/support/tensor.h"
#include "unroll/train/trainer.h"

namespace unroll {

// One field of a dataset, either
//   a tensor whose axis 0 (or DatasetOptions::axes) numbers the examples: x f32 [N,I] gives batches [B,I]; or
//   sequences, one tensor [T_i,...] per example: batches [T,B,...], zeros at t >= T_i, and an input "<field>.lengths"
//   i32 [B]. T is the length of the longest sequence in the dataset, or see pad_to_multiple.
using Field = std::variant<Tensor, std::vector<Tensor>>;
using Fields = std::map<std::string, Field>;

struct DatasetOptions {
  std::int64_t batch = 32;      // B; the last batch of an epoch may be smaller
  bool shuffle = true;          // shuffle the training examples in every epoch
  bool drop_last = false;       // leave out a smaller last batch of training
  double validation = 0.1;      // share of the examples
  double test = 0;              // share of the examples
  bool random_splits = true;    // draw the splits by split_seed; false: training first, then validation, then test
  std::uint64_t split_seed = 0;
  std::map<std::string, int> axes = {};  // for tensors: the axis that numbers the examples, if it is not 0
  // Above 0: T is the longest length in the batch, rounded up to a multiple. Each T is compiled once, so use few.
  std::int64_t pad_to_multiple = 0;
};

// Immutable, cheap to copy. All functions may be called from several threads.
class UNROLL_API TensorDataset {
 public:
  // Throws Error(usage | shape), which names the field, when numbers of examples differ or a requested split is empty.
  explicit TensorDataset(Fields fields, DatasetOptions options = {});
  // Takes predefined splits and ignores `validation` and `test` of the options. An empty map means no such split.
  TensorDataset(Fields train, Fields validation, Fields test, DatasetOptions options = {});
  static Result<TensorDataset> try_create(Fields fields, DatasetOptions options = {}) noexcept;

  const DatasetOptions& options() const;
  std::int64_t examples(Split split) const;
  std::int64_t n_batches(Split split) const;
  // Returns the indices of a batch's examples in the fields. The result depends only on the arguments. (seed, epoch)
  // determine the training order; other splits keep theirs.
  std::vector<std::int64_t> indices(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const;
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const;
  // Returns a batch of the given examples.
  Batch batch(Split split, std::span<const std::int64_t> indices) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace unroll
