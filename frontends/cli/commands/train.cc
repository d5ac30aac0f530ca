// SPDX-License-Identifier: Apache-2.0
// `unroll train`: trains the model of a config. The run folder gets config.toml (resolved), metrics.jsonl,
// best.safetensors, last.safetensors and log.txt.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/support/files/paths.h"
#include "core/support/machine_memory.h"
#include "core/support/text/shell_word.h"
#include "frontends/cli/bench/scripts.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/run/event_file.h"
#include "frontends/cli/run/launched_ranks.h"
#include "frontends/cli/run/progress.h"
#include "frontends/cli/run/train_report.h"
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
#include "unroll/tasks/transfer.h"

namespace unroll::cli {
namespace {

struct TrainArguments : ConfigArguments, OutputArguments {
  std::string out, from;
  bool resume = false;
  std::optional<std::int64_t> max_updates;
  bool find_lr = false;
  bool verify_resume = false;
  std::optional<std::int64_t> check_precision;  // updates
  double tolerance = 0.01;
};

void add_options(CLI::App& app, TrainArguments& o) {
  make_required(add_operand(app, "config", o.config,
                            "Config file; `unroll new` writes one. With --resume, default: the run's own."), false);
  group(app, "Training");
  add_flag(app, "--resume", o.resume, "Continue from the run's last checkpoint; the result is bit-identical.");
  add_text(app, "--from", o.from, "RUN",
           "Fine-tune: start from the parameters of this run folder or model file. Tokens and labels keep their rows.",
           "parameters drawn from train.seed");
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
  add_output(app, o);
  add_config_device(app, o);
  add_memory_limit(app, o);
  add_examples(app,
               "  unroll train docs/examples/char-lm.toml --out runs/char-lm\n"
               "  unroll train --resume --out runs/char-lm --max-updates 2000\n"
               "  unroll train docs/examples/char-lm.toml --find-lr\n"
               "  unroll train more.toml --from runs/char-lm --out runs/more\n"
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

// The task of a command that writes no run.
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
  report.add("suggested_lr", search.suggested).add("updates", search.points.size());
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
  report.add("equal", check.differences.empty()).add("updates", check.updates);
  report.add("stopped_after", check.stopped_after);
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
  report.add("agrees", check.agrees).add("precision", own).add("updates", check.points.size());
  report.add("largest_difference", check.largest).add("at_update", check.largest_at);
  report.add("tolerance", options.tolerance).add("skipped_updates", check.skipped_updates);
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

// --resume takes no value: a run folder after it is taken for a config.
std::string hint_of_run_folder(const TrainArguments& options) {
  if (options.resume && disk().exists(options.config + "/config.toml"))
    return fmt::format("Name the run to resume: unroll train --resume --out {}", shell_word(options.config));
  return fmt::format("Name a run folder: unroll train {} --out runs/first",
                     options.config.empty() ? "CONFIG" : shell_word(options.config));
}

// The parameters that --from gives the model.
Transfer transfer_of(const TrainArguments& options, const Task& task, std::uint64_t seed) {
  if (options.from.empty()) return {};
  if (options.resume)
    throw Error(ErrorKind::usage, "train", "--from does not apply to --resume", "A resumed run has its own parameters");
  const auto trained = load_model(is_folder(options.from) ? options.from + "/best.safetensors" : options.from);
  return transfer_parameters(task.metadata(), seed, trained.metadata, trained.tensors);
}

// "start: 12 parameters of runs/a", and a line for each that is not kept as a whole.
std::vector<std::string> transfer_lines(const Transfer& transfer, const std::string& from) {
  if (transfer.rows.empty()) return {};
  const auto n = std::ranges::count(transfer.rows, Transfer::Kind::kept, &Transfer::Row::kind);
  std::vector<std::string> lines{fmt::format("start: {} parameters of {}", n, from)};
  for (const Transfer::Row& row : transfer.rows) {
    if (row.kind == Transfer::Kind::kept) continue;
    const char* const what = row.kind == Transfer::Kind::rows      ? "keeps "
                             : row.kind == Transfer::Kind::fresh ? "is new"
                                                                  : "is left out";
    const char* const mark = row.kind == Transfer::Kind::rows || row.note.empty() ? "" : ": ";
    lines.push_back(fmt::format("start: {} {}{}{}", row.name, what, mark, row.note));
  }
  return lines;
}

// The other ranks write nothing and print only errors.
int follow(const Config& config, TrainerOptions trainer, const TrainArguments& options, Communicator& ranks) {
  const auto task = make_task(config, "");
  trainer.start = transfer_of(options, *task, trainer.seed).parameters;
  const auto backend = open_backend(config, /*predict=*/false, nullptr, &ranks);
  trainer.folder = options.out;
  trainer.resume = options.resume;
  Trainer(task, *backend, trainer).fit({}, [] { return stop_signal() != 0; });
  return stop_signal() != 0 ? 128 + stop_signal() : 0;
}

// The display of a run and all that is noted of it on the way.
class RunReporter {
 public:
  RunReporter(const TrainArguments& options, const Config& config, std::vector<ConfigChange> changes, const Task& task,
              const TrainerOptions& trainer, const Transfer& transfer)
      : options_(options), config_(config), changes_(std::move(changes)), task_(task),
        start_(transfer_lines(transfer, options.from)),
        display_(options.out + "/log.txt", disk(), {trainer.stop_at, 60 * trainer.max_minutes},
                 /*plain_advice=*/!options.json) {
    if (config.boolean("run.tensorboard")) events_.emplace(options.out, disk());
  }

  // Has the trainer call this reporter.
  void listen(TrainerOptions& trainer) {
    trainer.stage = display_.stages();
    trainer.warn = [this](const std::string& text) { warn(text); };
    trainer.started = [this](std::int64_t update) {
      for (const ConfigChange& change : changes_) display_.line(change_line(change));
      keep_config(options_.out, update, config_, changes_);
    };
    trainer.estimated = [this](const RunEstimate& estimate) {
      estimate_ = estimate;
      note_data();
      display_.estimated(estimate);
    };
  }

  void report(const Progress& p) {
    losses_.add(p);
    note_data();
    display_.report(p);
    if (events_) events_->report(p);
  }

  FinishedRun finish(const TrainResult& result, const Communicator* ranks) {
    note_data();  // of a run without a report
    display_.finish();
    const std::size_t peak = peak_resident_memory();
    if (result.estimated_seconds > 0 && result.seconds >= k_least_compared)
      display_.line(measured_line(estimate_, result, peak));
    if (stop_signal() != 0 || result.out_of_time) {
      display_.line(fmt::format("stopped after update {}; continue with:", result.updates));
      display_.command(fmt::format("  unroll train --resume --out {}", shell_word(options_.out)));
    }
    const bool diverged = losses_.diverged(result, display_.advice());
    if (!diverged) note_baselines(task_, config_, result, display_);
    return {options_.out, options_.config, result, estimate_, peak, display_.best_update(), display_.advice(), diverged,
            ranks};
  }

 private:
  void warn(const std::string& text) { display_.line("warning: " + text); }
  // Once, when the trainer has refused nothing.
  void note_data() {
    if (std::exchange(noted_, true)) return;
    for (const std::string& line : start_) display_.line(line);
    for (const std::string& note : task_.notes()) display_.line("data: " + without_folder(note));
    for (const std::string& line : config_.settings_without_effect()) display_.line("note: " + line);
    for (const std::string& warning : data_warnings(task_, config_)) warn(warning);
    for (const Split split : {Split::validation, Split::test})
      if (const std::string note = small_split_note(task_, split); !note.empty()) display_.line(note);
  }

  const TrainArguments& options_;
  const Config& config_;
  std::vector<ConfigChange> changes_;  // since the run that is resumed
  const Task& task_;
  std::vector<std::string> start_;  // of a model that --from names
  ProgressDisplay display_;
  std::optional<EventFile> events_;
  RunEstimate estimate_;
  LossTrace losses_;
  bool noted_ = false;
};

int train(const TrainArguments& options, const Config& config, TrainerOptions trainer, Communicator* ranks) {
  auto changes = options.resume ? changes_since_run(options.out, config) : std::vector<ConfigChange>();
  Activity loading("loading the data");
  const auto task = make_task(config, "");
  loading.finish();
  const Transfer transfer = transfer_of(options, *task, trainer.seed);
  trainer.start = transfer.parameters;
  const ExplainedBackend backend(options.explain, open_backend(config, options.explain, nullptr, ranks));
  catch_stop_signals();
  StartingRunFolder folder(options.out, options.resume);
  RunReporter reporter(options, config, std::move(changes), *task, trainer, transfer);
  trainer.folder = options.out;
  trainer.resume = options.resume;
  reporter.listen(trainer);
  const TrainResult result = Trainer(task, *backend, trainer).fit([&](const Progress& p) { reporter.report(p); },
                                                                  [] { return stop_signal() != 0; });
  folder.keep();
  const FinishedRun run = reporter.finish(result, ranks);
  backend.print(options.json ? report_for_programs(run) : report_for_people(run), options.json);
  return stop_signal() != 0 ? 128 + stop_signal() : 0;
}

int execute(const TrainArguments& options) {
  if (options.out.empty() && !options.find_lr && !options.verify_resume && !options.check_precision)
    throw Error(ErrorKind::usage, "train", "--out is missing", hint_of_run_folder(options));
  if (!options.from.empty() && (options.find_lr || options.verify_resume || options.check_precision))
    throw Error(ErrorKind::usage, "train", "--from does not apply to a check", "Train with --out instead");
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
