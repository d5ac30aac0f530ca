// SPDX-License-Identifier: Apache-2.0
// Optimizers, and the rules for single parameters: those of its group, or the optimizer's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/train/optimizer.h"
#include "unroll/nn/scope.h"
#include "unroll/train/trainer.h"

namespace unroll {

struct ParameterRule {
  double lr_scale = 1;
  double weight_decay = 0;
};

// One for each parameter. Throws Error(usage) when a group matches none, with the names that are there, on numbers out
// of range, and when nothing is left to train.
std::vector<ParameterRule> parameter_rules(const OptimizerOptions& optimizer, std::span<const ParameterGroup> groups,
                                           std::span<const ParameterSpec> parameters);

}  // namespace unroll
