// SPDX-License-Identifier: Apache-2.0
// Finds the first non-finite value of an update.
#pragma once

#include <string>

#include "unroll/passes/backend.h"
#include "unroll/train/trainer.h"

namespace unroll {

// Runs the forward and backward pass of a batch again and looks at every float value in the order in which the graph
// computes them. `tensors` has the graph's other inputs: parameters, states, key. Says what it is, where the first bad
// element lies, and what it was made of; empty when all are finite.
// As in the update, products are of `precision` and the loss is multiplied by `loss_scale`.
std::string first_nonfinite(const Task& task, const Batch& batch, const TensorMap& tensors, Backend& backend,
                            Precision precision, double loss_scale);

}  // namespace unroll
