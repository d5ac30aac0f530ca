// SPDX-License-Identifier: Apache-2.0
// What each optimiser keeps per parameter, the node that updates both, and what is particular to a parameter.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/graph.h"
#include "unroll/model.h"
#include "unroll/trainer.h"

namespace unroll {

// How one parameter is trained: its group's rule, or the optimiser's.
struct ParameterRule {
  double lr_scale = 1;
  double weight_decay = 0;
};

class OptimizerRecipe {
 public:
  // Throws Error(usage) on an unknown name, with the known ones, and on a number out of range.
  explicit OptimizerRecipe(const OptimizerOptions& options);

  const std::vector<std::string>& slots() const { return slots_; }  // each of the parameter's type, zero at first
  // The new parameter, then the new slots.
  std::vector<Value> update(Value parameter, Value gradient, std::span<const Value> slots, Value lr, Value update,
                            const ParameterRule& rule) const;

 private:
  Op op_;
  std::vector<std::string> inputs_;  // after parameter and gradient: slot names, "lr", "update"
  std::vector<std::string> slots_;
  Attributes attributes_;
};

// One for each parameter. Throws Error(usage) when a group matches none, with the names that are there, on numbers out
// of range, and when nothing is left to train.
std::vector<ParameterRule> parameter_rules(const OptimizerOptions& optimizer, std::span<const ParameterGroup> groups,
                                           std::span<const ParameterSpec> parameters);

}  // namespace unroll
