// SPDX-License-Identifier: Apache-2.0
// `predict --svg` and --explain-attention: what a model predicts for new data, drawn as an SVG file, and what its words
// attend to, as a page.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/panel.h"
#include "frontends/config/run/run_folder.h"

namespace unroll::cli {

// Throws Error(usage) where --svg is given and the task has no picture, or the picture would replace the answers.
void check_picture(const RunFolder& run, const PredictArguments& options);
// Writes the panels to --svg, where it is given. Throws Error(usage) when there are none.
void write_picture(const RunFolder& run, const PredictArguments& options, const std::vector<Panel>& panels);

// The same of --explain-attention.
void check_attention(const Answers& answers, const PredictArguments& options);
void write_attention(const RunFolder& run, const PredictArguments& options, Answers& answers);

}  // namespace unroll::cli
