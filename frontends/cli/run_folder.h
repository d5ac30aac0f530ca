// SPDX-License-Identifier: Apache-2.0
// Reading back what `unroll train` left: the resolved config and one of the two checkpoints.
#pragma once

#include "frontends/cli/options.h"
#include "unroll/safetensors.h"

namespace unroll::cli {

struct RunFolder {
  Config config;
  TensorFile model;
};
// options.config names the folder, options.checkpoint the file. Throws Error(input_file).
RunFolder open_run(const Options& options);

}  // namespace unroll::cli
