// SPDX-License-Identifier: Apache-2.0
// Reading back what `unroll train` left: the resolved config and one of the two checkpoints; or a config and weights
// that lie elsewhere.
#pragma once

#include "frontends/cli/options.h"
#include "unroll/safetensors.h"

namespace unroll::cli {

struct RunFolder {
  Config config;
  TensorFile model;
  std::string folder;  // where a relative data.path starts
};
// options.config names the folder and options.checkpoint the file in it; with options.weights they are a config file
// and a safetensors file. Throws Error(input_file).
RunFolder open_run(const Options& options);

}  // namespace unroll::cli
