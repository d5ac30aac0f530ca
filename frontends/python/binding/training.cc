// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/training.h"

#include <utility>

#include "frontends/config/run/resume.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "frontends/python/binding/listener.h"
#include "frontends/python/binding/training_parts.h"

namespace unroll::python {

namespace {

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
