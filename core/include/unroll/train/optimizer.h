// SPDX-License-Identifier: Apache-2.0
// Optimizers as graph nodes, for custom training steps. Trainer includes these steps.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/nn/scope.h"
#include "unroll/train/trainer.h"

namespace unroll {

// The update rule of one parameter.
class UNROLL_API Optimizer {
 public:
  // Throws Error(usage) on an unknown name, with the known names, and on a number out of range.
  explicit Optimizer(const OptimizerOptions& options);

  const OptimizerOptions& options() const { return options_; }
  // State tensors of each parameter ("mean", "square"), of the parameter's type; zeros before the first update.
  const std::vector<std::string>& slots() const { return slots_; }
  // Appends one update. Returns the new parameter, then the new slots. lr f32 []; update i32 [], from 1.
  std::vector<Value> update(Value parameter, Value gradient, std::span<const Value> slots, Value lr, Value update,
                            double weight_decay) const;

 private:
  OptimizerOptions options_;
  Op op_;
  std::vector<std::string> inputs_;  // after parameter and gradient: slot names, "lr", "update"
  std::vector<std::string> slots_;
  Attributes attributes_;
};

// Turns the graph of a scope into a training step: appends the gradients of `loss` with respect to all parameters of
// the scope, their clipping and the optimizer. New inputs: "lr" f32 [], "update" i32 [] (from 1), and
// "optimizer.<slot>.<parameter>" for each parameter. Each parameter and slot also becomes an output of its name: the
// next value. Weight decay acts on parameters of rank 2 and above unless options.decay_vectors is set.
struct TrainingStep {
  std::vector<std::string> parameters, slots;  // names of inputs, and of the outputs with their next values
  TensorMap initial_slots;                     // zeros
};
UNROLL_API TrainingStep append_training_step(Scope scope, Value loss, const OptimizerOptions& options,
                                             const ClipOptions& clip = {.norm = 0});

}  // namespace unroll
