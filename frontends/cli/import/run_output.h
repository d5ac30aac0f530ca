// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "frontends/cli/explain/explain.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/support/tensor.h"

namespace unroll::cli {

struct TensorFiles {
  std::string input;   // safetensors
  std::string output;  // safetensors
  bool explain = false;
  bool json = false;
};

// Prints the result after `unroll run` wrote `tensors`: with --json the report, with their types; otherwise their
// number, unless --quiet. Also names tensors with non-finite elements.
void print_run(const TensorFiles& options, const TensorMap& tensors, Report report,
               const ExplainingBackend* explaining);

}  // namespace unroll::cli
