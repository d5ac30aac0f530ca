// SPDX-License-Identifier: Apache-2.0
// A network as a function, for training (make_task) and for inference (Model).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "unroll/data/dataset.h"
#include "unroll/model/model.h"
#include "unroll/passes/run.h"
#include "unroll/support/result.h"
#include "unroll/train/trainer.h"

namespace unroll {

// The inputs of a batch as values of the graph, by name.
class UNROLL_API Inputs {
 public:
  explicit Inputs(std::map<std::string, Value, std::less<>> values) : values_(std::move(values)) {}
  bool has(std::string_view name) const { return values_.contains(name); }
  // Throws Error(usage) with the known names when there is no such input.
  Value operator[](std::string_view name) const;
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

// Returns the mask t < lengths[b], b8 [T,B], for lengths i32 [B] and T = steps. Use it with masked_mean.
UNROLL_API Value sequence_mask(Value lengths, std::int64_t steps);

// Appends a model to the scope's graph. Returns its outputs and, for training, its loss. It is called once per batch
// shape, not once per batch. A function that checks `inputs.has("label")` before it builds the loss serves training and
// inference.
using Network = std::function<TaskGraph(Scope& scope, const Inputs& inputs)>;

// A task for Trainer. The metadata is stored with the model.
UNROLL_API std::shared_ptr<const Task> make_task(TensorDataset dataset, Network network,
                                                 std::map<std::string, std::string> metadata = {});
// Creates a task without data, for a custom training loop (Trainer::update). The example shows names, types and shapes
// of the inputs; its values are not read.
UNROLL_API std::shared_ptr<const Task> make_task(Batch example, Network network,
                                                 std::map<std::string, std::string> metadata = {});

// A network with its trained parameters, ready to run on tensors. The parameters are constants; the backend packs them
// once for each input shape. Use it from one thread at a time.
class UNROLL_API Model {
 public:
  // Parameters by PyTorch's names: load_model(path).tensors, or Trainer::parameters().
  Model(BackendHandle backend, Network network, TensorMap parameters);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Returns TaskGraph::outputs by name. Compiles new shapes first. Throws Error(input_file) when parameters are
  // missing, unknown or of the wrong shape, and Error(usage | shape | type) on inputs that do not fit.
  TensorMap run(const TensorMap& inputs);
  Result<TensorMap> try_run(const TensorMap& inputs) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unroll
