// SPDX-License-Identifier: Apache-2.0
// A run folder is known by its config.toml.
#include "frontends/cli/run_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "frontends/cli/job.h"
#include "frontends/cli/report.h"
#include "unroll/error.h"
#include "unroll/trainer.h"
#include "unroll/vfs.h"

namespace unroll::cli {

RunFolder open_run(const Options& options) {
  if (!options.weights.empty()) {
    return {load_config(options, options.config), load_model(options.weights), folder_of(options.config)};
  }
  const std::string config = options.config + "/config.toml";
  const std::string model = fmt::format("{}/{}.safetensors", options.config, options.checkpoint);
  for (const std::string& path : {config, model}) {
    if (!disk().exists(path)) {
      throw Error(ErrorKind::input_file, options.config, fmt::format("not a run folder: {} is missing", path),
                  "Name a folder that `unroll train --out` wrote");
    }
  }
  return {load_config(options, config), load_model(model), options.config};
}

void prepare_run_folder(const std::string& folder, bool resume) {
  namespace fs = std::filesystem;
  if (fs::exists(folder) && !fs::is_directory(folder)) {
    throw Error(ErrorKind::usage, "unroll", fmt::format("--out {} is a file", folder), "Name a folder");
  }
  if (!resume && fs::exists(folder) && !fs::is_empty(folder)) {
    throw Error(ErrorKind::usage, "unroll", fmt::format("--out {} is not empty", folder),
                "Name another folder, or go on with a training run in it by train --resume");
  }
  disk().make_folder(folder);
}

void make_data_path_absolute(Config& config, const std::string& config_path) {
  if (config.text("data.path").empty()) return;
  const std::filesystem::path data = std::filesystem::path(folder_of(config_path)) / config.text("data.path");
  config.set("data.path", std::filesystem::absolute(data).lexically_normal().string(), config_path);
}

void save_config(const Config& config, const std::string& path) {
  write_file(path, config.toml(config.uses()));
}

}  // namespace unroll::cli
