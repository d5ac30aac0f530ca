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

// After `unroll run` wrote `tensors`: with --json the report, with their types; otherwise how many, unless --quiet.
// Also which of them have elements that are not finite.
void print_run(const TensorFiles& options, const TensorMap& tensors, Report report,
               const ExplainingBackend* explaining);

}  // namespace unroll::cli
