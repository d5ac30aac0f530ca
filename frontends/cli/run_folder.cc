// SPDX-License-Identifier: Apache-2.0
// A run folder is known by its config.toml.
#include "frontends/cli/run_folder.h"

#include <fmt/format.h>

#include "frontends/cli/job.h"
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

}  // namespace unroll::cli
