// SPDX-License-Identifier: Apache-2.0
// What the model of a run does on its test set: computed for a page, or drawn as an SVG file.
#pragma once

#include <string>

#include "frontends/cli/report/page.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

// Evaluates best.safetensors with a bound on the work; progress goes to stderr. Where it cannot, because the data file
// was moved, say, the result says why.
TestResult test_result(const std::string& folder);

// Throws Error(usage) where the task has no pictures.
void check_drawable(const RunFolder& run, const std::string& folder);
// Pictures of what the model does on the split: `eval --svg`. Throws Error(usage) where there is nothing to draw.
void draw_examples(const RunFolder& run, const Task& task, Backend& backend, Split split, const std::string& path);

}  // namespace unroll::cli
