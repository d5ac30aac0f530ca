// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/training.h"

#include <utility>

#include "frontends/config/run/job.h"
#include "frontends/config/run/resume.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "frontends/python/binding/listener.h"

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

struct Parts {
  cli::Config config;
  TrainerOptions options;
  std::shared_ptr<const Task> task;
  std::unique_ptr<Backend> backend;

  explicit Parts(const TrainRequest& request)
      : config(config_of(request)), options(cli::trainer_options(config)), task(cli::make_task(config, "")),
        backend(cli::open_backend(config)) {}
  LoadedModel model(TensorFile file) const {
    return LoadedModel(std::move(file), config.text("run.backend"), static_cast<int>(config.integer("run.threads")));
  }
};

FinishedRun train_with(const TrainRequest& request, Listener& listener) {
  Parts parts(request);
  TrainerOptions& options = parts.options;
  options.folder = request.folder;
  options.resume = request.resume;
  options.warn = [&](const std::string& text) { listener.warn(text); };
  for (const std::string& line : parts.config.settings_without_effect()) listener.warn(line);
  for (const std::string& warning : cli::data_warnings(*parts.task, parts.config)) options.warn(warning);
  if (request.folder.empty()) {
    Trainer trainer(parts.task, *parts.backend, options);
    TrainResult result = listener.fit(trainer);
    return {std::move(result), parts.model({trainer.parameters(), parts.task->metadata()})};
  }
  const auto changes = request.resume ? cli::changes_since_run(request.folder, parts.config)
                                      : std::vector<cli::ConfigChange>();
  cli::StartingRunFolder folder(request.folder, request.resume);
  options.started = [&](std::int64_t update) { cli::keep_config(request.folder, update, parts.config, changes); };
  Trainer trainer(parts.task, *parts.backend, options);
  TrainResult result = listener.fit(trainer);
  folder.keep();
  return {std::move(result), parts.model(load_model(request.folder + "/best.safetensors"))};
}

}  // namespace

PythonRun train(const TrainRequest& request) {
  Listener listener(request.on_report);
  return listener.train<PythonRun>(request.folder, [&] { return train_with(request, listener); });
}

LoadedModel build(const TrainRequest& request) {
  Listener listener(request.on_report);
  return listener.run([&] {
    Parts parts(request);
    return parts.model({Trainer(parts.task, *parts.backend, parts.options).parameters(), parts.task->metadata()});
  });
}

}  // namespace unroll::python
