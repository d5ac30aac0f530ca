// SPDX-License-Identifier: Apache-2.0
// The contents of checkpoint files. last.safetensors: parameters, tensors in other roles (core/support/tensor_role.h)
// and a RunState. best.safetensors: parameters only; with weight averaging, the averages. Both have the model metadata
// and a digest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/train/update/schedule.h"
#include "unroll/io/safetensors.h"
#include "unroll/train/trainer.h"

namespace unroll {

// The position of a run. With the tensors it is enough to continue bit for bit: data order, masks and schedule are
// functions of seed and update.
struct RunState {
  std::int64_t update = 0;
  std::uint64_t seed = 0;
  std::int64_t batches_per_epoch = 0;
  std::int64_t accumulate = 1;
  std::size_t metrics_bytes = 0;  // length of metrics.jsonl at this point
  std::optional<double> best_loss;
  double last_loss = 0;
  std::optional<double> lr;  // that the options gave to the last update; empty: not stored
  std::int64_t validations_without_better = 0;
  PlateauState plateau;
  std::int64_t rollbacks = 0;  // each halves the learning rate
  std::map<std::string, double> best_metrics;
  std::string data_digest;        // of the first training batch; empty: not stored
  std::string validation_digest;  // of the first validation batch; empty: not stored, or no validation set
};
void put_run_state(TensorFile& file, const RunState& state);
// Throws Error(input_file) naming `path` when something is missing or malformed.
RunState get_run_state(const TensorFile& file, const std::string& path);

// Saving writes the digest of the content (core/io/digest.h) into the file's metadata.
void put_digest(TensorFile& file);
// Throws Error(input_file) when the digest is there and does not match.
void check_digest(const TensorFile& file, const std::string& path);

// crc32c of the names, types and bytes of a batch.
std::string digest_of(const Batch& batch);

}  // namespace unroll
