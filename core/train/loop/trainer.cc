// SPDX-License-Identifier: Apache-2.0
// The training loop around the update graph: selects the batch and learning rate; logs, validates and saves. The
// results of an update depend on (task, options, seed, update) and carried state, never on logging or saving.
#include "unroll/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/support/process/abandoned.h"
#include "core/support/process/forked.h"
#include "core/support/sum_tree.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "core/train/loop/estimate.h"
#include "core/train/device/memory_limit.h"
#include "core/train/device/options.h"
#include "core/train/loop/prefetch.h"
#include "core/train/loop/trainer_state.h"
#include "core/train/update/metrics.h"
#include "core/train/update/schedule.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Counters are read at least so often, so that a run of bad updates is noticed without reading them every time.
constexpr std::int64_t k_look_every = 16;
constexpr double k_rollback_factor = 0.5;
// Replays take as long as a few updates and are made for the first skipped updates only.
constexpr int k_max_replays = 3;

bool due(std::int64_t update, std::int64_t every) { return every > 0 && update % every == 0; }

TrainerOptions checked(TrainerOptions o) {
  check_training(o);
  return o;
}

}  // namespace

Trainer::State::State(std::shared_ptr<const Task> t, BackendHandle b, TrainerOptions o)
    : backend(std::move(b)), task(std::move(t)), options(checked(std::move(o))),
      model(task, backend.get("trainer"), options),
      ranks(model.ranks()),
      folder(is_first() ? options.folder : "", options.vfs ? *options.vfs : disk(),
             [this](const std::string& text) { warn(text); }, options.keep) {
  n_batches = task->n_batches(Split::train);
  updates_per_epoch = std::max<std::int64_t>((n_batches + options.accumulate - 1) / options.accumulate, 1);
  if (options.epochs > 0) options.max_updates = options.epochs * updates_per_epoch;
  run.seed = options.seed;
  run.batches_per_epoch = n_batches;
  run.accumulate = options.accumulate;
}

void Trainer::State::warn(const std::string& text) const {
  if (!is_first()) return;
  if (options.warn)
    options.warn(text);
  else
    std::fprintf(stderr, "warning: %s\n", text.c_str());
}

std::vector<Batch> Trainer::State::batches_of(std::int64_t update) const {
  const std::int64_t from = (update - 1) % updates_per_epoch * options.accumulate;
  const std::int64_t n = micro_batches_in(update);
  const MicroBatches own = ranks ? micro_batches_of(n, ranks->rank(), ranks->size()) : MicroBatches{0, n};
  const std::lock_guard one_at_a_time(making_batches);  // of the prefetch thread and of replays
  std::vector<Batch> batches;
  for (std::int64_t i = own.begin; i < own.end; ++i)
    batches.push_back(task->batch(Split::train, options.seed, epoch_of(update), from + i));
  return batches;
}

std::int64_t Trainer::State::micro_batches_in(std::int64_t update) const {
  const std::int64_t from = (update - 1) % updates_per_epoch * options.accumulate;
  return std::min(options.accumulate, n_batches - from);
}

double Trainer::State::lr_of(std::int64_t update) const {
  const double lr = options.optimizer.lr * std::pow(k_rollback_factor, static_cast<double>(run.rollbacks));
  return scheduled_lr(options.schedule, lr, update, options.max_updates, run.plateau.plateaus);
}

double Trainer::State::average_rate_of(std::int64_t update) const {
  const std::int64_t nth = update - options.average.start;
  if (nth <= 1) return 1;
  return options.average.kind == Average::ema ? 1 - options.average.decay : 1 / static_cast<double>(nth);
}

bool Trainer::State::is_out_of_time() const {
  const double minutes = std::chrono::duration<double>(Clock::now() - started).count() / 60;
  return options.max_minutes > 0 && run.update > started_update && minutes >= options.max_minutes;
}

void Trainer::State::estimate(std::int64_t end, const std::function<bool()>& stop) {
  const auto weigh = [&] {
    estimated.memory = model.memory(options.prefetch * options.accumulate);
    estimated.saved_bytes = model.programs().bytes().saved;
    estimated.on_device = model.programs().on_device();
    require_memory(estimated, model.programs().memory());
  };
  weigh();
  if (options.estimate_seconds <= 0) return;
  model.stages().tell({"estimating time and memory"});
  estimated.updates = std::max<std::int64_t>(end - run.update, 0);
  const std::int64_t every = options.validate_every, n = task->n_batches(Split::validation);
  if (validates())
    estimated.validations = end / every - run.update / every + (end == options.max_updates && end % every);
  const bool leaves_some = folder.is_open() && !run.best_loss;  // see leave_some_best
  if (validates() && leaves_some) estimated.validations = std::max<std::int64_t>(estimated.validations, 1);
  Trial trial;
  trial.batches = [this](std::int64_t update) { return batches_of(update); };
  trial.inputs = [this](std::int64_t update) { return inputs_of(update, /*statistics=*/false); };
  trial.stop = stop;
  trial.decided = [this](bool mine) { return ranks ? from_rank_0(mine) : mine; };
  trial.first = run.update + 1;
  trial.last = end;
  trial.epoch = updates_per_epoch;
  if (validates())
    trial.validation_batches =
        options.validation_batches > 0
            ? std::min(options.validation_batches * task->evaluation_shards(Split::validation), n)
            : n;
  trial.prefetch = options.prefetch;
  trial.seconds = options.estimate_seconds;
  const FurtherPrograms further = try_updates(model, *task, trial, estimated);
  weigh();
  add_rest(estimated, further, model, resident_before);
  if (options.estimated) options.estimated(estimated);
}

bool Trainer::State::look_for_bad(std::int64_t update, std::span<const Batch> own) {
  const DeviceModel::BadUpdates bad = model.bad();
  if (bad.skipped == seen_skipped) return false;
  const std::int64_t limit = options.on_bad == OnBad::stop ? 1 : options.max_bad_updates;
  const bool stops = limit > 0 && bad.longest_row >= limit;
  std::string what;
  if (bad.row > 0 && (stops || ++replays <= k_max_replays))
    what = own.empty() ? first_nonfinite(bad.last, batches_of(bad.last)) : first_nonfinite(bad.last, own);
  const std::int64_t news = bad.skipped - seen_skipped;
  seen_skipped = bad.skipped;
  warn("skipped " + counted(news, "update") + " with a non-finite loss or gradient, the last one update " +
       std::to_string(bad.last) + (what.empty() ? "" : "; first " + what));
  if (!stops) return false;
  if (options.on_bad == OnBad::rollback && run.rollbacks < options.max_rollbacks) {
    roll_back(update);
    return true;
  }
  throw Error(ErrorKind::numeric, "trainer",
              counted(bad.longest_row, "update") + " in a row, up to update " + std::to_string(update) +
                  ", had a non-finite loss or gradient" + (what.empty() ? "" : "; first " + what),
              remedy_of(what));
}

void Trainer::State::roll_back(std::int64_t from) {
  const std::int64_t rollbacks = run.rollbacks + 1;
  model.tensors().set_parameters(good.parameters, "the last checkpoint");
  model.tensors().set_carried(good.carried, "the last checkpoint");
  run = good.run;
  run.rollbacks = rollbacks;
  seen_skipped = model.bad().skipped;
  since_update = run.update;
  folder.log(json_line(RollbackLine{from, run.update, rollbacks}));
  warn("back from update " + std::to_string(from) + " to " + std::to_string(run.update) + ", lr times " +
       short_text(std::pow(k_rollback_factor, static_cast<double>(rollbacks)), 6));
}

Trainer::Trainer(std::shared_ptr<const Task> task, BackendHandle backend, TrainerOptions options)
    : state_(new State(std::move(task), std::move(backend), std::move(options)),
             {[](State* state) {
               if (state->backend.is_over())
                 abandon(state);
               else
                 delete state;
             }}) {}
Trainer::State& Trainer::state() const {
  state_->backend.get("trainer");
  return *state_;
}

TrainResult Trainer::fit(const std::function<void(const Progress&)>& report, const std::function<bool()>& stop) {
  State& s = state();
  const OfThisProcess process;
  const auto stay = [&] {
    if (process.is_inherited())
      throw Error(ErrorKind::usage, "trainer",
                  "the process was forked by a callback of the run, which goes on in the parent only",
                  "End the child in the callback: with os._exit() in Python, _exit() in C++");
  };
  const State::Report reported = [&](const Progress& progress) {
    report(progress);
    stay();
  };
  const auto stops = [&] {
    const bool asked = stop && stop();
    stay();
    return asked;
  };
  return s.failing_together([&] { return s.fit(report && s.is_first() ? reported : State::Report(), stops); });
}

TrainResult Trainer::State::fit(const Report& report, const std::function<bool()>& stop) {
  if (n_batches < 1)
    throw Error(ErrorKind::usage, "trainer", "the training set has no complete batch",
                "Reduce the batch size, or provide more data");
  require_equal_ranks();
  start();
  const std::int64_t end = options.stop_at > 0 ? std::min(options.stop_at, options.max_updates) : options.max_updates;
  if (has_updates_left(end)) {
    if (options.started) options.started(run.update);
    warn_of_schedule();
    warn_of_new_rate();
    estimate(end, stop);
  }
  recall_advice();
  since = started = Clock::now();
  since_update = started_update = run.update;
  const bool interrupted = run_updates(end, report, stop);
  leave_some_best();
  if (saved_update != run.update) save();
  folder.require_saved();
  if (out_of_patience()) restore_best();
  return result(interrupted);
}

bool Trainer::State::run_updates(std::int64_t end, const Report& report, const std::function<bool()>& stop) {
  Prefetch batches([this](std::int64_t update) { return batches_of(update); }, options.prefetch, options.max_updates);
  while (run.update < options.max_updates && !out_of_patience()) {
    // Before each update and after the last. A rank sends the others with its sums that it was asked to stop.
    const bool asked = (stop && stop()) || is_out_of_time();
    if (run.update >= end || (ranks ? model.asked_to_stop() : asked)) return true;
    const std::int64_t update = run.update + 1;
    model.stages().tell({"training", run.update, end});
    const std::vector<Batch> now = batches.take(update);
    waited = batches.seconds_waited();
    DeviceModel::UpdateInputs inputs = inputs_of(update, due(update, options.watch_every));
    inputs.asked = asked;
    model.update(now, inputs);
    run.update = update;
    after_update(report);
  }
  return false;
}

void Trainer::State::after_update(const Report& report) {
  const std::int64_t update = run.update;
  const bool last = update == options.max_updates;
  const bool logs = due(update, options.log_every), saves = due(update, options.checkpoint_every);
  const bool checks = validates() && (last || due(update, options.validate_every));
  const bool looks = logs || saves || checks || last || options.on_bad == OnBad::stop || due(update, k_look_every);
  if (looks && look_for_bad(update)) return;
  if (due(update, options.watch_every)) note_statistics();
  if (logs) log(update, report);
  if (checks) validate(update, report);
  if (saves) {
    save();
    remember();
  }
}

Result<Trainer> Trainer::try_create(std::shared_ptr<const Task> task, BackendHandle backend,
                                    TrainerOptions options) noexcept {
  return attempt([&] { return Trainer(std::move(task), backend, std::move(options)); });
}

EvaluateResult Trainer::evaluate(Split split) {
  return state().model.evaluator().evaluate(split, 0, 0, /*counts=*/true);
}
TensorMap Trainer::parameters() const { return state().model.tensors().averages(); }
void Trainer::set_parameters(const TensorMap& parameters) {
  state().model.tensors().set_parameters(parameters, "parameters");
}

}  // namespace unroll
