// SPDX-License-Identifier: Apache-2.0
// The loop around the update graph: which batch, which learning rate, when to log, validate and save. The numbers of
// an update depend on (task, options, seed, update) and what is carried, never on what was logged or saved.
#include "unroll/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/support/machine_memory.h"
#include "core/train/advice.h"
#include "core/train/device_model.h"
#include "core/train/estimate.h"
#include "core/train/metrics.h"
#include "core/train/options.h"
#include "core/train/prefetch.h"
#include "core/train/run_folder.h"
#include "core/train/schedule.h"
#include "unroll/error.h"

namespace unroll {

namespace {

// Counters are read at least so often, so that a run of bad updates is noticed without reading them every time.
constexpr std::int64_t k_look_every = 16;
constexpr double k_rollback_factor = 0.5;
// Replays take as long as a few updates and are made for the first skipped updates only.
constexpr int k_max_replays = 3;

bool due(std::int64_t update, std::int64_t every) { return every > 0 && update % every == 0; }

std::string updates_text(std::int64_t n) { return std::to_string(n) + (n == 1 ? " update" : " updates"); }

using Clock = std::chrono::steady_clock;

}  // namespace

struct Trainer::State {
  State(std::shared_ptr<const Task> t, Backend& backend, TrainerOptions o)
      : task(std::move(t)), options(checked(std::move(o))), model(task, backend, options),
        folder(options.folder, options.vfs ? *options.vfs : disk(), [this](const std::string& text) { warn(text); },
               options.keep) {
    n_batches = task->n_batches(Split::train);
    updates_per_epoch = (n_batches + options.accumulate - 1) / options.accumulate;
    if (options.epochs > 0) options.max_updates = options.epochs * updates_per_epoch;
    run.seed = options.seed;
    run.batches_per_epoch = n_batches;
    run.accumulate = options.accumulate;
  }

  static TrainerOptions checked(TrainerOptions o) {
    check_options(o);
    return o;
  }

  void warn(const std::string& text) const {
    if (options.warn)
      options.warn(text);
    else
      std::fprintf(stderr, "warning: %s\n", text.c_str());
  }

  // --- position

  std::int64_t epoch_of(std::int64_t update) const { return (update - 1) / updates_per_epoch; }
  // The last update of an epoch may have fewer.
  std::vector<Batch> batches_of(std::int64_t update) const {
    const std::int64_t from = (update - 1) % updates_per_epoch * options.accumulate;
    std::vector<Batch> batches;
    for (std::int64_t i = from; i < std::min(from + options.accumulate, n_batches); ++i)
      batches.push_back(task->batch(Split::train, options.seed, epoch_of(update), i));
    return batches;
  }
  double lr_of(std::int64_t update) const {
    const double lr = options.optimizer.lr * std::pow(k_rollback_factor, static_cast<double>(run.rollbacks));
    return scheduled_lr(options.schedule, lr, update, options.max_updates, run.plateau.plateaus);
  }
  double average_rate_of(std::int64_t update) const {
    const std::int64_t nth = update - options.average.start;
    if (nth <= 1) return 1;
    return options.average.kind == Average::ema ? 1 - options.average.decay : 1 / static_cast<double>(nth);
  }
  // After one update at least, so that a run in slices comes to its end.
  bool is_out_of_time() const {
    const double minutes = std::chrono::duration<double>(Clock::now() - started).count() / 60;
    return options.max_minutes > 0 && run.update > started_update && minutes >= options.max_minutes;
  }
  DeviceModel::UpdateInputs inputs_of(std::int64_t update, bool watches) const {
    return {lr_of(update), update, average_rate_of(update), watches};
  }
  bool out_of_patience() const { return options.patience > 0 && run.validations_without_better >= options.patience; }

  // --- files

  void open_folder() {
    if (opened) return;
    opened = true;
    const std::optional<TensorFile> last = folder.open(options.resume, options.overwrite);
    model.prepare(task->batch(Split::train, options.seed, 0, 0));
    if (last) restore(*last, folder.loaded_path());
    remember();
  }

  // What a rollback goes back to.
  void remember() {
    if (options.on_bad == OnBad::rollback) good = {model.parameters(), model.carried(), run};
  }

  void restore(const TensorFile& file, const std::string& path) {
    const RunState was = get_run_state(file, path);
    if (was.seed != options.seed)
      throw Error(ErrorKind::usage, path,
                  "was made with seed " + std::to_string(was.seed) + "; this run has " + std::to_string(options.seed),
                  "Give the same seed, or start in another folder");
    if (was.batches_per_epoch != n_batches)
      throw Error(ErrorKind::usage, path,
                  "was made with " + std::to_string(was.batches_per_epoch) + " batches an epoch; this run has " +
                      std::to_string(n_batches),
                  "Data, batch and steps must be the same to resume");
    if (was.accumulate != options.accumulate)
      throw Error(ErrorKind::usage, path,
                  "was made with " + std::to_string(was.accumulate) + " batches an update; this run has " +
                      std::to_string(options.accumulate),
                  "Give the same accumulate to resume");
    TensorMap parameters, carried;
    for (const auto& [name, tensor] : file.tensors) (is_run_tensor(name) ? carried : parameters).emplace(name, tensor);
    model.set_parameters(parameters, path);
    model.set_carried(carried, path);
    run = was;
    saved_update = run.update;
    seen_skipped = model.bad().skipped;
    folder.cut_metrics(run.metrics_bytes);
  }

  // Parameters with the metadata that makes them usable alone. A model that is not finite is never written.
  TensorFile model_file(TensorMap parameters) const {
    TensorFile file{std::move(parameters), task->metadata()};
    for (const auto& [name, tensor] : file.tensors)
      if (!tensor.all_finite())
        throw Error(ErrorKind::numeric, "trainer",
                    "parameter '" + name + "' is not finite after update " + std::to_string(run.update) +
                        ": nothing is saved, the last good files stay",
                    "Lower lr, or clip the gradient norm");
    for (const auto& [key, value] : options.metadata) file.metadata.insert_or_assign(key, value);
    return file;
  }

  void save() {
    if (!folder.is_open()) return;
    TensorFile file = model_file(model.parameters());
    file.tensors.merge(model.carried());
    run.metrics_bytes = folder.metrics_bytes();
    put_run_state(file, run);
    put_digest(file);
    folder.save(file, run.update);
    saved_update = run.update;
  }

  void save_best(double loss) {
    if (options.patience > 0) best = model.averages();
    if (!folder.is_open()) return;
    TensorFile file = model_file(model.averages());
    file.metadata["trainer.update"] = std::to_string(run.update);
    file.metadata["trainer.validation_loss"] = std::to_string(loss);
    put_digest(file);
    folder.set_best(std::move(file));
  }

  // Before the first update, of those up to `end`.
  void estimate(std::int64_t end, bool validates, const std::function<bool()>& stop) {
    const auto weigh = [&] {
      estimated.memory = model.memory(options.prefetch * options.accumulate);
      estimated.saved_bytes = model.saved_bytes();
      require_memory(estimated, model.machine_memory());
    };
    weigh();
    if (options.estimate_seconds <= 0) return;
    estimated.updates = std::max<std::int64_t>(end - run.update, 0);
    const std::int64_t every = options.validate_every, n = task->n_batches(Split::validation);
    if (validates) estimated.validations = end / every - run.update / every + (end == options.max_updates && end % every);
    Trial trial;
    trial.batches = [this](std::int64_t update) { return batches_of(update); };
    trial.inputs = [this](std::int64_t update) { return inputs_of(update, /*watch=*/false); };
    trial.stop = stop;
    trial.first = run.update + 1;
    trial.last = end;
    trial.epoch = updates_per_epoch;
    if (validates) trial.validation_batches = options.validation_batches > 0 ? std::min(options.validation_batches, n) : n;
    trial.prefetch = options.prefetch;
    trial.seconds = options.estimate_seconds;
    const FurtherPrograms further = try_updates(model, *task, trial, estimated);
    weigh();
    add_rest(estimated, further, model, resident_before);
    if (options.estimated) options.estimated(estimated);
  }

  // --- looking at what the updates did

  // What was not finite first in an update after which none was good.
  std::string culprit(std::int64_t update) {
    const std::string found = model.first_bad_value(batches_of(update), update);
    return found.empty() ? "the norm of the gradients is too large for f32" : found;
  }

  // True when the run went back to an earlier point. Throws Error(numeric) where the policy stops it.
  bool look_for_bad(std::int64_t update) {
    const DeviceModel::BadUpdates bad = model.bad();
    if (bad.skipped == seen_skipped) return false;
    const std::int64_t limit = options.on_bad == OnBad::stop ? 1 : options.max_bad_updates;
    const bool stops = limit > 0 && bad.longest_row >= limit;
    const std::string what = bad.row > 0 && (stops || ++replays <= k_max_replays) ? culprit(bad.last) : "";
    const std::int64_t news = bad.skipped - seen_skipped;
    seen_skipped = bad.skipped;
    warn(updates_text(news) + " up to " + std::to_string(bad.last) +
         " had a loss or gradient that is not finite and were skipped" + (what.empty() ? "" : "; first " + what));
    if (!stops) return false;
    if (options.on_bad == OnBad::rollback && run.rollbacks < options.max_rollbacks) {
      roll_back(update);
      return true;
    }
    throw Error(ErrorKind::numeric, "trainer",
                updates_text(bad.longest_row) + " in a row, the last one at most " + std::to_string(update) +
                    ", had a loss or gradient that is not finite" + (what.empty() ? "" : "; first " + what),
                "Where it is an input, clean the data; else divide lr by 10 (it is " + std::to_string(lr_of(update)) +
                    "), lower clip.norm, or shorten the sequences");
  }

  void roll_back(std::int64_t from) {
    const std::int64_t rollbacks = run.rollbacks + 1;
    model.set_parameters(good.parameters, "the last checkpoint");
    model.set_carried(good.carried, "the last checkpoint");
    run = good.run;
    run.rollbacks = rollbacks;
    seen_skipped = model.bad().skipped;
    since_update = run.update;
    folder.log(json_line(RollbackLine{from, run.update, rollbacks}));
    warn("back from update " + std::to_string(from) + " to " + std::to_string(run.update) + ", lr times " +
         std::to_string(std::pow(k_rollback_factor, static_cast<double>(rollbacks))));
  }

  Progress progress(std::int64_t update) {
    const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
    if (seconds > 0 && update > since_update) rate = static_cast<double>(update - since_update) / seconds;
    Progress p{};
    p.update = update;
    p.max_updates = options.max_updates;
    p.lr = lr_of(update);
    p.updates_per_second = rate;
    p.skipped_updates = seen_skipped;
    if (seconds > 0) p.data_wait = (waited - since_waited) / seconds;
    return p;
  }

  void log(std::int64_t update, const std::function<void(const Progress&)>& report) {
    const std::vector<double> t = model.totals();
    model.clear_totals();
    Progress p = progress(update);
    p.loss = t[1] > 0 ? t[0] / t[1] : std::nan("");
    p.items = t[1];
    p.gradient_norm = t[3] > 0 ? t[2] / t[3] : std::nan("");
    if (options.precision == Precision::f16) p.loss_scale = model.loss_scale();
    p.metrics = metric_values(model.metrics(), std::span(t).subspan(k_n_fixed_totals));
    folder.log(json_line(TrainLine{update, epoch_of(update), p.loss, p.lr, p.gradient_norm,
                                   seen_skipped, p.loss_scale, p.metrics}));
    last_loss = p.loss;
    last_norm = p.gradient_norm;
    trained_seconds += std::chrono::duration<double>(Clock::now() - since).count();
    since = Clock::now();
    since_update = update;
    since_waited = waited;
    p.watch = std::exchange(watch, std::nullopt);
    p.advice = advisor.look(p);
    if (report) report(p);
  }

  // What was said of the run so far is not said again: it follows from the reports.
  void recall_advice() {
    advisor = Advisor(run.update == 0 || folder.is_open());
    for (const Progress& p : reports_of(folder.metrics())) advisor.look(p);
  }

  void note_watch() {
    watch = model.watched();
    folder.log(json_line(*watch));
  }

  void validate(std::int64_t update, const std::function<void(const Progress&)>& report) {
    Progress p = progress(update);
    const auto start = Clock::now();
    const EvaluateResult r = model.evaluate(Split::validation, options.validation_batches);
    p.best = std::isfinite(r.loss) && (!run.best_loss || r.loss < *run.best_loss);
    ++n_validations;
    run.last_loss = r.loss;
    run.validations_without_better = p.best ? 0 : run.validations_without_better + 1;
    after_validation(options.schedule, p.best, run.plateau);
    if (p.best) {
      run.best_loss = r.loss;
      run.best_metrics = r.metrics;
      save_best(r.loss);
    }
    folder.log(json_line(ValidationLine{update, r.loss, p.best, r.metrics}));
    p.loss = last_loss;
    p.gradient_norm = last_norm;
    p.validation_loss = r.loss;
    p.validation_metrics = r.metrics;
    p.advice = advisor.look(p);
    since += Clock::now() - start;  // updates per second are of updates alone
    if (report) report(p);
  }

  // A run that ends before its first validation leaves a best.safetensors too; its first validation will replace it.
  void leave_some_best() {
    if (run.best_loss || !folder.is_open()) return;
    const EvaluateResult r = model.evaluate(Split::validation, options.validation_batches);
    save_best(r.loss);
  }

  // After a run that ended by patience. A resumed one finds them in its folder.
  void restore_best() {
    if (!best && folder.is_open()) best = load_model(folder.best_path(), folder.vfs()).tensors;
    if (best) model.set_parameters(*best, "best parameters");
  }

  TrainResult result(bool interrupted) const {
    TrainResult r;
    r.updates = run.update;
    r.best_validation_loss = run.best_loss.value_or(0);
    r.last_validation_loss = run.last_loss;
    r.validation_metrics = run.best_metrics;
    r.skipped_updates = seen_skipped;
    r.rollbacks = run.rollbacks;
    const double seconds = trained_seconds + std::chrono::duration<double>(Clock::now() - since).count();
    if (seconds > 0) r.data_wait = waited / seconds;
    r.seconds = std::chrono::duration<double>(Clock::now() - started).count();
    const double share = estimated.updates > 0 ? static_cast<double>(run.update - started_update) /
                                                     static_cast<double>(estimated.updates) : 0;
    r.estimated_seconds = static_cast<double>(run.update - started_update) * estimated.update_seconds +
                          share * estimated.compile_seconds +
                          static_cast<double>(n_validations) * estimated.validation_seconds;
    r.interrupted = interrupted;
    r.out_of_time = is_out_of_time();
    r.out_of_patience = out_of_patience();
    return r;
  }

  std::size_t resident_before = resident_memory();
  std::shared_ptr<const Task> task;
  TrainerOptions options;
  DeviceModel model;
  RunFolder folder;
  RunState run;
  std::int64_t n_batches = 0, updates_per_epoch = 0;
  std::optional<TensorMap> best;  // kept where patience may end the run
  std::int64_t saved_update = -1;
  bool opened = false;
  std::int64_t seen_skipped = 0;
  int replays = 0;
  struct Point {
    TensorMap parameters, carried;
    RunState run;
  };
  Point good;  // with OnBad::rollback: the last checkpoint, in memory
  double last_loss = std::nan(""), last_norm = std::nan("");
  Clock::time_point since;
  Clock::time_point started;
  std::int64_t since_update = 0, started_update = 0;
  double waited = 0, since_waited = 0;  // seconds for data, in all and at the last report
  double trained_seconds = 0;           // up to the last report, validations apart
  RunEstimate estimated;
  std::int64_t n_validations = 0;
  Advisor advisor{true};
  std::optional<Watch> watch;  // since the last report
  double rate = 0;  // updates per second, last known
};

Trainer::Trainer(std::shared_ptr<const Task> task, Backend& backend, TrainerOptions options)
    : state_(std::make_unique<State>(std::move(task), backend, std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::fit(const std::function<void(const Progress&)>& report, const std::function<bool()>& stop) {
  State& s = *state_;
  const TrainerOptions& o = s.options;
  if (s.n_batches < 1)
    throw Error(ErrorKind::usage, "trainer", "the training split holds no batch",
                "Lower the batch size, or give more data");
  const bool validates = o.validate_every > 0 && s.task->n_batches(Split::validation) > 0;
  s.open_folder();
  const std::int64_t end = o.stop_at > 0 ? std::min(o.stop_at, o.max_updates) : o.max_updates;
  s.estimate(end, validates, stop);
  s.recall_advice();
  s.since = s.started = Clock::now();
  s.since_update = s.started_update = s.run.update;
  bool interrupted = false;
  Prefetch batches([&s](std::int64_t update) { return s.batches_of(update); }, o.prefetch, o.max_updates);
  while (s.run.update < o.max_updates && !s.out_of_patience()) {
    interrupted = (stop && stop()) || s.run.update >= end || s.is_out_of_time();
    if (interrupted) break;
    const std::int64_t update = s.run.update + 1;
    const std::vector<Batch> now = batches.take(update);
    s.waited = batches.seconds_waited();
    const bool watches = due(update, o.watch_every);
    s.model.update(now, s.inputs_of(update, watches));
    s.run.update = update;
    const bool last = update == o.max_updates;
    const bool logs = due(update, o.log_every), saves = due(update, o.checkpoint_every);
    const bool checks = validates && (last || due(update, o.validate_every));
    const bool looks = logs || saves || checks || last || o.on_bad == OnBad::stop || due(update, k_look_every);
    if (looks && s.look_for_bad(update)) continue;
    if (watches) s.note_watch();
    if (logs) s.log(update, report);
    if (checks) s.validate(update, report);
    if (saves) {
      s.save();
      s.remember();
    }
  }
  s.leave_some_best();
  if (s.saved_update != s.run.update) s.save();
  s.folder.require_saved();
  if (s.out_of_patience()) s.restore_best();
  return s.result(interrupted);
}

EvaluateResult Trainer::evaluate(Split split) { return state_->model.evaluate(split, 0); }
TensorMap Trainer::parameters() const { return state_->model.averages(); }
void Trainer::set_parameters(const TensorMap& parameters) { state_->model.set_parameters(parameters, "parameters"); }

}  // namespace unroll
