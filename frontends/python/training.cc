// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/training.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <optional>
#include <utility>

#include "core/support/interruption.h"
#include "frontends/cli/config/job.h"
#include "frontends/cli/run/resume.h"
#include "frontends/cli/run/run_folder.h"
#include "unroll/error.h"

namespace nb = nanobind;

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

nb::dict report_of(const Progress& p) {
  nb::dict report;
  report["update"] = p.update;
  report["max_updates"] = p.max_updates;
  report["loss"] = p.loss;
  report["lr"] = p.lr;
  report["gradient_norm"] = p.gradient_norm;
  report["updates_per_second"] = p.updates_per_second;
  report["metrics"] = nb::cast(p.metrics);
  report["validation_loss"] = nb::cast(p.validation_loss);
  report["validation_metrics"] = nb::cast(p.validation_metrics);
  report["best"] = p.best;
  nb::list advice;
  for (const Advice& a : p.advice) advice.append(a.text);
  report["advice"] = advice;
  return report;
}

// What Python code may do while a run goes on. The first exception ends the run and is raised after it has saved.
class Listener {
 public:
  explicit Listener(const nb::object& on_report) : on_report_(on_report) {}

  void report(const Progress& progress) {
    if (on_report_.is_none()) return;
    in_python([&] {
      const nb::object answer = on_report_(report_of(progress));
      stops_ = stops_ || answer.is(nb::bool_(false));
    });
  }
  void warn(const std::string& text) {
    in_python([&] { nb::module_::import_("warnings").attr("warn")(text, nb::handle(PyExc_RuntimeWarning)); });
  }
  // Between updates. From the first of these calls on, a run has something to save.
  bool stops() {
    updates_ = true;
    look_for_signals();
    return stops_ || raised_;
  }
  // While data are read and programs planned. Throws when the run shall end.
  void check() {
    if (updates_) return;
    look_for_signals();
    if (raised_) throw Error(ErrorKind::usage, "unroll.train", "was interrupted");  // raise() has the exception
  }
  void raise() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Python is asked some times a second only: other threads may hold its lock.
  void look_for_signals() {
    const auto now = Clock::now();
    if (now - asked_ < std::chrono::milliseconds(50)) return;
    asked_ = now;
    in_python([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  template <class Call>
  void in_python(const Call& call) {
    const nb::gil_scoped_acquire lock;
    try {
      call();
    } catch (nb::python_error& error) {
      if (!raised_) raised_.emplace(std::move(error));
    }
  }

  const nb::object& on_report_;
  bool stops_ = false, updates_ = false;
  std::optional<nb::python_error> raised_;
  Clock::time_point asked_ = Clock::now();
};

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
  const auto fit = [&](Trainer& trainer) {
    return trainer.fit([&](const Progress& p) { listener.report(p); }, [&] { return listener.stops(); });
  };
  if (request.folder.empty()) {
    Trainer trainer(parts.task, *parts.backend, options);
    TrainResult result = fit(trainer);
    return {std::move(result), parts.model({trainer.parameters(), parts.task->metadata()})};
  }
  const auto changes = request.resume ? cli::changes_since_run(request.folder, parts.config)
                                      : std::vector<cli::ConfigChange>();
  cli::StartingRunFolder folder(request.folder, request.resume);
  options.started = [&](std::int64_t update) { cli::keep_config(request.folder, update, parts.config, changes); };
  Trainer trainer(parts.task, *parts.backend, options);
  TrainResult result = fit(trainer);
  folder.keep();
  return {std::move(result), parts.model(load_model(request.folder + "/best.safetensors"))};
}

}  // namespace

namespace {

// Without Python's lock. An exception that the listener holds comes before that of the work.
template <class Work>
auto listened(Listener& listener, const Work& work) {
  std::optional<decltype(work())> result;
  try {
    const nb::gil_scoped_release release;
    const InterruptionHook hook([&] { listener.check(); });
    result.emplace(work());
  } catch (...) {
    listener.raise();
    throw;
  }
  listener.raise();
  return std::move(*result);
}

}  // namespace

FinishedRun train(const TrainRequest& request) {
  Listener listener(request.on_report);
  return listened(listener, [&] { return train_with(request, listener); });
}

LoadedModel build(const TrainRequest& request) {
  Listener listener(request.on_report);
  return listened(listener, [&] {
    Parts parts(request);
    return parts.model({Trainer(parts.task, *parts.backend, parts.options).parameters(), parts.task->metadata()});
  });
}

}  // namespace unroll::python
