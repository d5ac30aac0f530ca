// SPDX-License-Identifier: Apache-2.0
// `unroll run`: runs a config, a run folder or an ONNX model on tensors from a file, for complete sequences.
#pragma once

#include "frontends/cli/explain/explain.h"
#include "frontends/cli/options/command_options.h"
#include "frontends/cli/terminal/activity.h"

namespace unroll::cli {

struct TensorArguments : RunArguments, OutputArguments {
  std::string input;   // safetensors
  std::string output;  // safetensors
  bool grad = false;
};

// Runs a run folder. Inputs and outputs have the names of unroll/tasks/inference.h; states are optional. Returns the
// exit code, as the functions below do.
int run_model(const TensorArguments& options);
// A build without protozero uses no_onnx.cc, which reports the missing dependency.
int run_onnx(const TensorArguments& options);

// Writes the tensors and prints the result: with --json the report with `more` and the types of the tensors; otherwise
// their number, unless --quiet. Also names tensors with non-finite elements.
int finish_run(const TensorArguments& options, TensorMap tensors, const ExplainedBackend& backend, Activity& busy,
               const Report& more = {});

}  // namespace unroll::cli
