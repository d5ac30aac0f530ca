// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/binding/training.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "frontends/config/run/resume.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "frontends/python/binding/interruptible.h"
#include "frontends/python/binding/listener.h"
#include "frontends/python/binding/training_parts.h"
#include "unroll/support/error.h"

namespace unroll::python {

namespace {

constexpr std::pair<std::string_view, Split> k_splits[] = {
    {"train", Split::train}, {"validation", Split::validation}, {"test", Split::test}};

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

Evaluation evaluate(const std::string& folder, const std::string& split, const std::vector<std::string>& settings) {
  const auto at = std::ranges::find(k_splits, split, &std::pair<std::string_view, Split>::first);
  if (at == std::end(k_splits))
    throw Error(ErrorKind::usage, "unroll.evaluate", "split must be train, validation or test; got '" + split + "'");
  return interruptible([&] {
    cli::RunArguments arguments;
    arguments.config = folder;
    arguments.settings = settings;
    const cli::RunFolder run = cli::open_run(arguments);
    const auto task = cli::make_task(run.config, run.folder, run.model.metadata);
    if (const cli::EmptySplit empty = cli::empty_split(*task, run.config, at->second); !empty.none())
      throw Error(ErrorKind::usage, "unroll.evaluate", empty.what, empty.next + ", or evaluate another split");
    const auto backend = cli::open_backend(run.config);
    Trainer trainer(task, *backend, cli::trainer_options(run.config));
    trainer.set_parameters(run.model.tensors);
    const EvaluateResult result = trainer.evaluate(at->second);
    return Evaluation{result.loss, result.metrics, task->baselines(at->second)};
  });
}

LoadedModel build(const TrainRequest& request) {
  Listener listener(request.on_report);
  return listener.run([&] {
    Parts parts(request);
    return parts.model({Trainer(parts.task, *parts.backend, parts.options).parameters(), parts.task->metadata()});
  });
}

}  // namespace unroll::python
