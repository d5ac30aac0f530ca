// SPDX-License-Identifier: Apache-2.0
// `unroll train`: trains the model of a config. The run folder gets config.toml (resolved), metrics.jsonl,
// best.safetensors, last.safetensors and log.txt.
#include <fmt/format.h>
#include <stdlib.h>

#include <optional>
#include <utility>

#include "core/support/machine_memory.h"
#include "core/support/text/shell_word.h"
#include "frontends/cli/bench/scripts.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/run/event_file.h"
#include "frontends/cli/run/launched_ranks.h"
#include "frontends/cli/run/progress.h"
#include "frontends/cli/run/baseline_comparison.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/signals.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/resume.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "unroll/parallel/communicator.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct TrainArguments : ConfigArguments {
  std::string out;
  bool resume = false;
  std::optional<std::int64_t> max_updates;
  bool find_lr = false;
  bool verify_resume = false;
  std::optional<std::int64_t> check_precision;  // updates
  double tolerance = 0.01;
  bool explain = false;
  bool json = false;
};

void add_options(CLI::App& app, TrainArguments& o) {
  make_required(add_operand(app, "config", o.config,
                            "Config file; `unroll new` writes one. With --resume, default: the run's own."), false);
  group(app, "Training");
  add_flag(app, "--resume", o.resume, "Continue from the run's last checkpoint; the result is bit-identical.");
  add_integer(app, "--max-updates", o.max_updates, "the config's train.max_updates",
              "Stop after update N; a larger N than planned extends the run.", {.lowest = 1, .example = 1000});
  add_seed(app, o);
  add_set(app, o);
  group(app, "Checks that run instead of training and write nothing");
  add_flag(app, "--find-lr", o.find_lr, "Run a learning-rate range test and suggest a rate.");
  add_flag(app, "--verify-resume", o.verify_resume,
               "Check that --max-updates updates (20) give the same bits with and without a stop and resume.");
  add_integer(app, "--check-precision", o.check_precision, "off",
              "Compare the losses of N updates in train.precision with those in f32.", {.lowest = 1, .example = 100});
  add_number(app, "--tolerance", o.tolerance, "Largest relative loss difference that --check-precision accepts.",
             {0, 1, 0.01});
  group(app, "Output");
  add_text(app, "--out", o.out, "FOLDER", "Run folder to write. Required unless a check runs.");
  add_explain(app, o.explain);
  add_json(app, o.json);
  add_config_device(app, o);
  add_memory_limit(app, o);
  add_examples(app,
               "  unroll train docs/examples/char-lm.toml --out runs/char-lm\n"
               "  unroll train --resume --out runs/char-lm --max-updates 2000\n"
               "  unroll train docs/examples/char-lm.toml --find-lr\n"
               "\n"
               "The first Ctrl-C finishes the update, saves a checkpoint and exits (code 130).\n"
               "The second exits at once.");
}

// --max-updates stops early, or extends the run if the config plans fewer.
void apply_max_updates(const TrainArguments& options, Config& config, TrainerOptions& trainer) {
  if (!options.max_updates) return;
  trainer.stop_at = *options.max_updates;
  if (trainer.epochs == 0 && trainer.stop_at > trainer.max_updates) {
    trainer.max_updates = trainer.stop_at;
    config.set("train.max_updates", trainer.stop_at, "--max-updates");
  }
}

// A run below this time, in seconds, measures its start rather than its updates.
constexpr double k_least_compared = 1;

struct Finished {
  TrainResult result;
  RunEstimate estimate;
  std::size_t peak = 0;  // bytes
  std::optional<std::int64_t> best_update;
  std::vector<Advice> advice;
  bool diverged = false;
  const Communicator* ranks = nullptr;  // null: one process
};

// Uses the names for programs; reports for people have words and units.
void add_communication(Report& report, const Finished& run) {
  if (!run.ranks) return;
  const Communicator::Exchanged exchanged = run.ranks->exchanged();
  report.add("ranks", std::int64_t{run.ranks->size()}).add("communication_seconds", exchanged.seconds);
  report.add("communication_bytes", static_cast<std::int64_t>(exchanged.sent_bytes));
  if (exchanged.seconds > 0)
    report.add("communication_gbps", static_cast<double>(exchanged.sent_bytes) / exchanged.seconds / 1e9);
}

Report report_for_programs(const Finished& run, const TrainArguments& options) {
  const TrainResult& result = run.result;
  Report report;
  report.add("folder", options.out).add("updates", result.updates);
  if (!result.validation_metrics.empty()) {
    report.add("best_validation_loss", result.best_validation_loss);
    if (run.best_update) report.add("best_update", *run.best_update);
    report.add("last_validation_loss", result.last_validation_loss);
    Report metrics;
    for (const auto& [name, value] : result.validation_metrics) metrics.add(name, value);
    report.add("validation_metrics", metrics);
  }
  report.add("skipped_updates", result.skipped_updates).add("rollbacks", result.rollbacks);
  report.add("data_wait", result.data_wait);
  report.add("seconds", result.seconds);
  add_communication(report, run);
  if (result.estimated_seconds > 0) report.add("estimated_seconds", result.estimated_seconds);
  if (run.estimate.bytes > 0) report.add("estimated_bytes", static_cast<std::int64_t>(run.estimate.bytes));
  if (run.peak > 0) report.add("peak_bytes", static_cast<std::int64_t>(run.peak));
  report.add("diverged", run.diverged);
  report.add("interrupted", stop_signal() != 0);
  report.add("out_of_time", result.out_of_time);
  report.add("out_of_patience", result.out_of_patience);
  ReportList list;
  for (const Advice& a : run.advice) list.push_back(Report().add("symptom", a.symptom).add("text", a.text));
  report.add("advice", list);
  return report;
}

// Advice and estimates were already printed as lines.
Report report_for_people(const Finished& run, const TrainArguments& options) {
  const TrainResult& result = run.result;
  Report report;
  report.add("run", options.out).add("updates", result.updates);
  if (!result.validation_metrics.empty()) {
    const std::string at = run.best_update ? fmt::format(" (update {})", *run.best_update) : "";
    report.add("best validation loss", figure_text(result.best_validation_loss) + at);
    report.add("last validation loss", result.last_validation_loss);
    for (const auto& [name, value] : result.validation_metrics) report.add("validation " + name, value);
  }
  if (result.skipped_updates > 0) report.add("skipped_updates", result.skipped_updates);
  if (result.rollbacks > 0) report.add("rollbacks", result.rollbacks);
  report.add("seconds", result.seconds).add("data_wait", result.data_wait);
  add_communication(report, run);
  if (run.peak > 0) report.add("peak memory", bytes_text(run.peak));
  const char* why = stop_signal() != 0       ? "yes, by a signal"
                    : result.out_of_time     ? "yes, by train.max_minutes"
                    : result.out_of_patience ? "yes, by train.patience"
                    : result.interrupted     ? "yes, by --max-updates"
                                             : "no";
  report.add("stopped early", why);
  if (run.diverged) report.add("diverged", "yes");
  const bool unfinished = stop_signal() != 0 || result.out_of_time;
  const std::string config = options.config.empty() ? options.out + "/config.toml" : options.config;
  report.add("next", run.diverged ? fmt::format("unroll train {} --find-lr", shell_word(config))
                     : unfinished ? fmt::format("unroll train --resume --out {}", shell_word(options.out))
                                : fmt::format("unroll eval {}", shell_word(options.out)));
  return report;
}

// Returns the task of a command that writes no run.
std::shared_ptr<const Task> make_task_and_warn(const Config& config) {
  auto task = make_task(config, "");
  for (const std::string& warning : data_warnings(*task, config)) print_line("warning: " + warning);
  return task;
}

// Prints every fourth point for people.
int run_find_lr(const Config& config, TrainerOptions trainer, const TrainArguments& options) {
  Activity busy("loading the data");
  const auto backend = open_backend(config);
  const auto task = make_task_and_warn(config);
  busy.say("trying learning rates");
  std::int64_t n = 0;
  LrSearchOptions trials;
  trials.trial = [&](const LrTrial& t) {
    busy.say("comparing short runs");
    print_progress(fmt::format("lr={:.3g} after {} updates: loss={:.5g}", t.lr, t.updates, t.loss));
  };
  const LrSearch search = find_lr(task, *backend, trainer, trials, [&](const LrPoint& p) {
    if (n++ % 4 == 0) print_progress(fmt::format("lr={:.3g} loss={:.5g} smoothed={:.5g}", p.lr, p.loss, p.smoothed));
    busy.at(n, trials.updates);
  });
  busy.finish();
  Report report;
  report.add("suggested_lr", search.suggested).add("updates", static_cast<std::int64_t>(search.points.size()));
  if (options.json) {
    ReportList points;
    for (const LrPoint& p : search.points)
      points.push_back(Report().add("lr", p.lr).add("loss", p.loss).add("smoothed", p.smoothed));
    report.add("points", points);
    ReportList runs;
    for (const LrTrial& t : search.trials)
      runs.push_back(Report().add("lr", t.lr).add("updates", t.updates).add("loss", t.loss));
    report.add("trials", runs);
  }
  report.print(options.json);
  return 0;
}

int run_verify_resume(const Config& config, TrainerOptions trainer, const TrainArguments& options) {
  constexpr std::int64_t k_updates = 20;
  Activity busy("loading the data");
  const auto backend = open_backend(config);
  const auto task = make_task_and_warn(config);
  ScratchFolder folder("resume");
  busy.say("comparing a resumed run with a straight one");
  trainer.stage = busy.stages();
  trainer.warn = [](const std::string& text) { print_line("warning: " + text); };
  const ResumeCheck check =
      verify_resume(task, *backend, trainer, options.max_updates.value_or(k_updates), folder.path.string());
  busy.finish();
  Report report;
  report.add("equal", check.differences.empty())
      .add("updates", check.updates)
      .add("stopped_after", check.stopped_after);
  ReportList list;
  for (const std::string& text : check.differences) list.push_back(Report().add("difference", text));
  report.add("differences", list);
  if (!check.differences.empty()) {
    folder.is_kept = true;
    report.add("folder", folder.path.string());
  }
  report.print(options.json);
  return check.differences.empty() ? 0 : exit_code(ErrorKind::differ);
}

// Approximate number of printed points of the curves.
constexpr std::size_t k_shown_points = 20;

int run_check_precision(const Config& config, TrainerOptions trainer, const TrainArguments& options) {
  Activity busy("loading the data");
  const auto backend = open_backend(config);
  const auto task = make_task_and_warn(config);
  busy.say("comparing precisions");
  trainer.stage = busy.stages();
  const PrecisionCheck check = check_precision(task, *backend, trainer, *options.check_precision, options.tolerance);
  busy.finish();
  const std::string own = config.text("train.precision");
  const auto point = [&](const PrecisionCheck::Point& p) {
    return Report().add("update", p.update).add("f32", p.f32).add(own, p.own);
  };
  const std::size_t every = options.json ? 1 : (check.points.size() + k_shown_points - 1) / k_shown_points;
  ReportList points;
  for (std::size_t i = every - 1; i < check.points.size(); i += every) points.push_back(point(check.points[i]));
  Report report;
  report.add("agrees", check.agrees)
      .add("precision", own)
      .add("updates", static_cast<std::int64_t>(check.points.size()));
  report.add("largest_difference", check.largest)
      .add("at_update", check.largest_at)
      .add("tolerance", options.tolerance);
  report.add("skipped_updates", check.skipped_updates);
  if (!check.failure.empty()) report.add("failure", check.failure);
  report.add("smoothed_losses", points);
  report.print(options.json);
  return check.agrees ? 0 : exit_code(ErrorKind::differ);
}

// Returns CONFIG, or without it the run's config.
std::string config_to_train(const TrainArguments& options) {
  if (!options.config.empty()) return options.config;
  if (!options.resume || options.out.empty())
    throw Error(ErrorKind::usage, "train", "the config file is missing",
                "Write: unroll train CONFIG --out DIR, or: unroll train --resume --out DIR");
  const std::string own = options.out + "/config.toml";
  if (!disk().exists(own))
    throw Error(ErrorKind::usage, "train", fmt::format("--out {} holds no run to resume: {} is missing", options.out,
                                                       own),
                "Name a folder that `unroll train` wrote, or a config file");
  return own;
}

// --resume takes no value; a run folder after it is parsed as a config.
std::string hint_of_run_folder(const TrainArguments& options) {
  if (options.resume && disk().exists(options.config + "/config.toml"))
    return fmt::format("Name the run to resume: unroll train --resume --out {}", shell_word(options.config));
  return fmt::format("Name a run folder: unroll train {} --out runs/first",
                     options.config.empty() ? "CONFIG" : shell_word(options.config));
}

// The other ranks write nothing and print only errors.
int follow(const Config& config, TrainerOptions trainer, const TrainArguments& options, Communicator& ranks) {
  const auto task = make_task(config, "");
  const auto backend = open_backend(config, /*predict=*/false, nullptr, &ranks);
  trainer.folder = options.out;
  trainer.resume = options.resume;
  Trainer(task, *backend, trainer).fit({}, [] { return stop_signal() != 0; });
  return stop_signal() != 0 ? 128 + stop_signal() : 0;
}

int train(const TrainArguments& options, const Config& config, TrainerOptions trainer, Communicator* ranks) {
  const auto changes = options.resume ? changes_since_run(options.out, config) : std::vector<ConfigChange>();
  Activity loading("loading the data");
  const auto task = make_task(config, "");
  loading.finish();
  ExplainingBackend* explaining = nullptr;
  const auto backend = explained_if(options.explain, open_backend(config, options.explain, nullptr, ranks), explaining);
  catch_stop_signals();
  StartingRunFolder folder(options.out, options.resume);
  ProgressDisplay display(options.out + "/log.txt", disk(), {trainer.stop_at, 60 * trainer.max_minutes},
                          /*plain_advice=*/!options.json);
  bool noted = false;
  const auto say_notes = [&] {  // once, if nothing was refused
    if (std::exchange(noted, true)) return;
    for (const std::string& note : task->notes()) display.line("data: " + without_folder(note));
    for (const std::string& line : config.settings_without_effect()) display.line("note: " + line);
    for (const std::string& warning : data_warnings(*task, config)) trainer.warn(warning);
    for (const Split split : {Split::validation, Split::test})
      if (const std::string note = small_split_note(*task, split); !note.empty()) display.line(note);
  };
  std::optional<EventFile> events;
  if (config.boolean("run.tensorboard")) events.emplace(options.out, disk());
  trainer.folder = options.out;
  trainer.resume = options.resume;
  trainer.stage = display.stages();
  trainer.warn = [&](const std::string& text) { display.line("warning: " + text); };
  trainer.started = [&](std::int64_t update) {
    for (const ConfigChange& change : changes) display.line(change_line(change));
    keep_config(options.out, update, config, changes);
  };
  RunEstimate estimate;
  trainer.estimated = [&](const RunEstimate& e) {
    estimate = e;
    say_notes();
    display.estimated(e);
  };
  LossTrace losses;
  const auto report = [&](const Progress& p) {
    losses.add(p);
    say_notes();
    display.report(p);
    if (events) events->report(p);
  };
  const TrainResult result = Trainer(task, *backend, trainer).fit(report, [] { return stop_signal() != 0; });
  folder.keep();
  say_notes();  // for a run without a report
  display.finish();
  const std::size_t peak = peak_resident_memory();
  if (result.estimated_seconds > 0 && result.seconds >= k_least_compared)
    display.line(measured_line(estimate, result, peak));
  if (stop_signal() != 0 || result.out_of_time) {
    display.line(fmt::format("stopped after update {}; continue with:", result.updates));
    display.command(fmt::format("  unroll train --resume --out {}", shell_word(options.out)));
  }
  const bool diverged = losses.diverged(result, display.advice());
  if (!diverged) note_baselines(*task, config, result, display);
  const Finished run{result, estimate, peak, display.best_update(), display.advice(), diverged, ranks};
  print_explained(options.json ? report_for_programs(run, options) : report_for_people(run, options), explaining,
                  options.json);
  return stop_signal() != 0 ? 128 + stop_signal() : 0;
}

int execute(const TrainArguments& options) {
  if (options.out.empty() && !options.find_lr && !options.verify_resume && !options.check_precision)
    throw Error(ErrorKind::usage, "train", "--out is missing", hint_of_run_folder(options));
  const std::string source = config_to_train(options);
  Config config = load_config(options, source);
  make_data_path_absolute(config, source);
  TrainerOptions trainer = trainer_options(config);
  apply_max_updates(options, config, trainer);
  if (options.verify_resume) return run_verify_resume(config, trainer, options);
  if (options.check_precision) return run_check_precision(config, trainer, options);
  if (options.find_lr) return run_find_lr(config, trainer, options);
  if (!was_launched_by_mpi()) return train(options, config, trainer, nullptr);
  return on_launched_ranks(config.number("run.rank_timeout"), [&](Communicator& ranks) {
    return ranks.rank() == 0 ? train(options, config, trainer, &ranks) : follow(config, trainer, options, ranks);
  });
}

}  // namespace

const Command train_command =
    command<TrainArguments>(k_begin, "train", "Train the model described by a config.", add_options, execute);

}  // namespace unroll::cli
