// SPDX-License-Identifier: Apache-2.0
// Whether a split has examples, and enough of them for its figures to say much; what else the data are warned of.
#pragma once

#include <string>
#include <vector>

#include "frontends/config/config.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

// One line when the split has fewer than 50 examples, with the standard error that follows; otherwise "". Language
// models count every token and get none.
std::string small_split_note(const Task& task, Split split);

// Why a split has no batch, from the shares of the config and the sizes of all splits, and what to change; both "" for
// a split with a batch.
struct EmptySplit {
  std::string what, next;
  bool none() const { return what.empty(); }
  std::string sentence() const { return what + ". " + next; }
};
EmptySplit empty_split(const Task& task, const Config& config, Split split);
// Lines for people: Task::warnings(), each empty split, and options that need a validation set where there is none.
std::vector<std::string> data_warnings(const Task& task, const Config& config);

}  // namespace unroll::cli
