// SPDX-License-Identifier: Apache-2.0
// Warnings about empty splits, splits too small for reliable figures, and other problems of the data.
#pragma once

#include <string>
#include <vector>

#include "frontends/config/config.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

// Returns one line if the split has fewer than 50 examples, with the resulting standard error; otherwise "". Language
// models count every token and get none.
std::string small_split_note(const Task& task, Split split);

// Reason why a split has no batch, from the shares of the config and the sizes of all splits, and the fix. Both are ""
// for a split with a batch.
struct EmptySplit {
  std::string what, next;
  bool none() const { return what.empty(); }
  std::string sentence() const { return what + ". " + next; }
};
EmptySplit empty_split(const Task& task, const Config& config, Split split);
// Returns lines for people: Task::warnings(), each empty split, and options that need a missing validation set.
std::vector<std::string> data_warnings(const Task& task, const Config& config);

}  // namespace unroll::cli
