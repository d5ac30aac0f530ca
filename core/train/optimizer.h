// SPDX-License-Identifier: Apache-2.0
// What each optimiser keeps per parameter, the node that updates both, and the learning rate of an update.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "unroll/graph.h"
#include "unroll/trainer.h"

namespace unroll {

class OptimizerRecipe {
 public:
  // Throws Error(usage) on an unknown name, with the known ones, and on a number out of range.
  explicit OptimizerRecipe(const OptimizerOptions& options);

  const std::vector<std::string>& slots() const { return slots_; }  // each of the parameter's type, zero at first
  // The new parameter, then the new slots.
  std::vector<Value> update(Value parameter, Value gradient, std::span<const Value> slots, Value lr,
                            Value update) const;

 private:
  Op op_;
  std::vector<std::string> inputs_;  // after parameter and gradient: slot names, "lr", "update"
  std::vector<std::string> slots_;
  Attributes attributes_;
};

// Learning rate of `update` (from 1) of `max_updates`: linear warm-up, then constant or half a cosine that would reach
// lr * final_fraction one update after the last (torch.optim.lr_scheduler.CosineAnnealingLR).
double scheduled_lr(const ScheduleOptions& schedule, double lr, std::int64_t update, std::int64_t max_updates);
void check_schedule(const ScheduleOptions& schedule);

}  // namespace unroll
