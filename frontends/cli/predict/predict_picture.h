// SPDX-License-Identifier: Apache-2.0
// `predict --svg` and --explain-attention: predictions for new data as an SVG file, and attention maps as a page.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/predict/answers.h"
#include "frontends/cli/report/panel.h"
#include "frontends/config/run/run_folder.h"

namespace unroll::cli {

// Throws Error(usage) if --svg is given and the task has no picture, or the picture would replace the answers.
void check_picture(const RunFolder& run, const PredictArguments& options);
// Writes the panels to --svg, if given. Throws Error(usage) if there are none.
void write_picture(const RunFolder& run, const PredictArguments& options, const std::vector<Panel>& panels);

// The same for --explain-attention.
void check_attention(const Answers& answers, const PredictArguments& options);
void write_attention(const RunFolder& run, const PredictArguments& options, Answers& answers);

}  // namespace unroll::cli
