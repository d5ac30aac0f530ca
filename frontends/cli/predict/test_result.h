// SPDX-License-Identifier: Apache-2.0
// Results of a run's model on its test set, for a page or an SVG file.
#pragma once

#include <string>

#include "frontends/cli/report/page.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

// Evaluates best.safetensors with bounded work; progress goes to stderr. If that fails, for example because the data
// file was moved, the result contains the reason.
TestResult test_result(const std::string& folder);

// Throws Error(usage) if the task has no pictures.
void check_drawable(const RunFolder& run, const std::string& folder);
// Draws pictures of the model's results on the split: `eval --svg`. Throws Error(usage) if there are none.
void draw_examples(const RunFolder& run, const Task& task, Backend& backend, Split split, const std::string& path);

}  // namespace unroll::cli
