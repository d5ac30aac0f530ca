// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/training_parts.h"

#include <utility>

namespace unroll::python {

namespace {

cli::Config config_of(const TrainRequest& request) {
  cli::ConfigArguments arguments;
  arguments.settings = request.settings;
  if (!request.is_text) {
    cli::Config config = cli::load_config(arguments, request.config);
    cli::make_data_path_absolute(config, request.config);
    return config;
  }
  cli::Config config;
  config.apply_toml(request.config, "config");
  for (const std::string& setting : request.settings) config.apply_setting(setting);
  cli::make_data_path_absolute(config, "config");
  return config;
}

}  // namespace

Parts::Parts(const TrainRequest& request)
    : config(config_of(request)), options(cli::trainer_options(config)), task(cli::make_task(config, "")),
      backend(cli::open_backend(config)) {}

LoadedModel Parts::model(TensorFile file) const {
  return LoadedModel(std::move(file), config.text("run.backend"), static_cast<int>(config.integer("run.threads")));
}

}  // namespace unroll::python
