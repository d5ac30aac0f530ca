// SPDX-License-Identifier: Apache-2.0
// Whether a split has enough examples for its figures to say much.
#pragma once

#include <string>

#include "unroll/trainer.h"

namespace unroll::cli {

// One line when the split has fewer than 50 examples, with the standard error that follows; otherwise "". Language
// models count every token and get none.
std::string small_split_note(const Task& task, Split split);

}  // namespace unroll::cli
