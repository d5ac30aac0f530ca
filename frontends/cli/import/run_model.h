// SPDX-License-Identifier: Apache-2.0
// `unroll run DIR`: runs a trained or imported model on tensors from a file, for complete sequences.
#pragma once

#include "frontends/cli/import/run_onnx.h"
#include "frontends/cli/options/command_options.h"

namespace unroll::cli {

// Inputs and outputs have the names of unroll/tasks/inference.h; states are optional. Returns the exit code.
int run_model(const RunArguments& run, const TensorFiles& options);

}  // namespace unroll::cli
