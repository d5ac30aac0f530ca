// SPDX-License-Identifier: Apache-2.0
// Training. A Task defines the data, the model and the loss. The Trainer compiles a whole update (forward pass, loss,
// gradients, clipping, finite check, optimizer) into one executable and drives it. docs/training.md explains the
// options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "unroll/io/safetensors.h"
#include "unroll/passes/run.h"
#include "unroll/support/hidden_state.h"
#include "unroll/support/result.h"
#include "unroll/train/checks.h"
#include "unroll/train/options.h"
#include "unroll/train/reports.h"
#include "unroll/train/task.h"

namespace unroll {

// Reads a model from last.safetensors, best.safetensors or any other file of parameters, such as a PyTorch state_dict.
// Returns parameters and metadata; optimizer state in a checkpoint is left out. Throws Error(input_file) when the file
// is damaged.
UNROLL_API TensorFile load_model(const std::string& path, Vfs& vfs = disk());
UNROLL_API TensorFile parse_model(std::span<const std::byte> bytes, const std::string& name);  // the same, in memory
UNROLL_API Result<TensorFile> try_load_model(const std::string& path, Vfs& vfs = disk()) noexcept;

class UNROLL_API Trainer {
 public:
  Trainer(std::shared_ptr<const Task> task, BackendHandle backend, TrainerOptions options);
  static Result<Trainer> try_create(std::shared_ptr<const Task> task, BackendHandle backend,
                                    TrainerOptions options) noexcept;

  // Trains until max_updates, a limit, or until stop() returns true; stop() is called between updates. Saves, then
  // returns. Throws Error(numeric) when on_bad stops the run, and Error(storage) at the end when the last save failed.
  TrainResult fit(const std::function<void(const Progress&)>& report = {}, const std::function<bool()>& stop = {});
  // Runs one optimizer step of a custom training loop: forward pass, gradients, clipping, optimizer. With the batches
  // of fit() it computes the same bits as fit(). Without `lr`, the options' schedule applies. Options of reports,
  // validation, checkpoints and the folder apply only to fit(). Throws Error(numeric) when on_bad stops the run,
  // Error(usage | shape | type) on a batch that does not fit.
  UpdateResult update(const Batch& batch, std::optional<double> lr = {});
  // One update with the combined gradient of at most `accumulate` batches.
  UpdateResult update(std::span<const Batch> batches, std::optional<double> lr = {});
  std::int64_t updates() const;  // made so far
  // Returns loss and metrics of the given batches, without dropout. Carried states continue from the previous batch
  // unless Batch::starts_stream is set.
  EvaluateResult evaluate(const Batch& batch);
  EvaluateResult evaluate(std::span<const Batch> batches);
  // Returns TaskGraph::outputs for a batch, by name, without dropout. The batch needs no targets if the task builds its
  // outputs without them.
  TensorMap predict(const Batch& batch);
  // Saves the complete training state in one file, for a bit-exact continuation: parameters, optimizer state, averages,
  // carried states, number of updates. load_model() reads the parameters from it. Atomic. Throws Error(storage).
  void save(const std::string& path);
  // Continues from a file of save(), or from last.safetensors of fit(). Throws Error(input_file) when the file does not
  // match the model or the optimizer, Error(usage) when seed, data or accumulate differ.
  void load(const std::string& path);

  EvaluateResult evaluate(Split split);
  // Returns the parameters in host memory, by PyTorch name. With weight averaging: the averages.
  TensorMap parameters() const;
  void set_parameters(const TensorMap& parameters);  // throws Error(input_file) on missing, unknown or misshapen ones

 private:
  struct State;
  State& state() const;  // throws Error(usage) after the end of the backend
  HiddenState<State> state_;
};

}  // namespace unroll
