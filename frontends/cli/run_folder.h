// SPDX-License-Identifier: Apache-2.0
// Making a run folder, and reading back what `unroll train` left in one: the resolved config and one of the two
// checkpoints; or a config and weights that lie elsewhere.
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

// Throws Error(usage) where it is a file or, without `resume`, holds something.
void prepare_run_folder(const std::string& folder, bool resume);
// A run folder must find the data from wherever it is read.
void make_data_path_absolute(Config& config, const std::string& config_path);
void save_config(const Config& config, const std::string& path);

}  // namespace unroll::cli
