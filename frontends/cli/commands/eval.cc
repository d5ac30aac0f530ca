// SPDX-License-Identifier: Apache-2.0
// `unroll eval`: loss and metrics of a run folder's model on a split of its data, compared with baselines.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <optional>

#include "core/data/text/entry_lines.h"
#include "core/support/text/shell_word.h"
#include "core/tasks/common/split_records.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/predict/forecast_file.h"
#include "frontends/cli/predict/pair_scores.h"
#include "frontends/cli/predict/scores.h"
#include "frontends/cli/predict/test_result.h"
#include "frontends/cli/run/baseline_comparison.h"
#include "frontends/cli/run/progress.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/terminal.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

struct EvalArguments : RunArguments, OutputArguments {
  std::string split = "test";
  DecodeOptions decode;
  std::string svg;
  std::string forecasts;            // file for every forecast of the split
  std::vector<std::string> levels;  // of intervals, in percent
};

void add_options(CLI::App& app, EvalArguments& o) {
  add_run(app, o);
  group(app, "Data");
  add_choice(app, "--split", o.split, "Part of the data to evaluate.", {"train", "validation", "test"});
  add_decoding(app, o.decode);
  add_texts(app, "--level", o.levels, "PERCENT",
            "Score the prediction intervals of a forecast, such as 80,95: their coverage and width, and CRPS.",
            "the forecast alone");
  group(app, "Output");
  add_text(app, "--svg", o.svg, "FILE", "Draw forecasts, the confusion matrix or attention maps to this SVG file.");
  add_text(app, "--forecasts", o.forecasts, "FILE",
           "Write every forecast of the split to this CSV file, a row for each step ahead: where it starts, the date, "
           "the value and the forecast.");
  add_output(app, o);
  add_config_device(app, o);
  add_examples(app,
               "  unroll eval runs/char-lm\n"
               "  unroll eval runs/char-lm --split validation --json\n"
               "  unroll eval docs/examples/char-lm.toml --weights model.safetensors");
}

Split split_of(const std::string& word) {
  return word == "train" ? Split::train : word == "validation" ? Split::validation : Split::test;
}

using Intervals = std::map<std::string, std::pair<double, double>>;

Intervals add_text_scores(PairScores scores, Metrics& metrics, std::map<std::string, Metrics>& baselines) {
  metrics.merge(scores.model);
  baselines.merge(scores.baselines);
  return std::move(scores.intervals);
}

// Confidence intervals of the scores of texts, for other pairs of the same kind.
void add_intervals(Report& report, const Intervals& intervals, bool json) {
  if (intervals.empty()) return;
  Report values;
  TextTable table{{"metric", "low", "high"}, {}};
  for (const auto& [name, range] : intervals) {
    values.add(name, Report().add("low", range.first).add("high", range.second));
    table.rows.push_back({words_of(name), figure_text(range.first), figure_text(range.second)});
  }
  if (json) report.add("intervals", values);
  else report.add("95 % confidence intervals of the model", table);
}

// Returns the names in the task's metadata, else the class numbers.
std::vector<std::string> class_names(const Task& task, std::int64_t n) {
  std::vector<std::string> names;
  const auto metadata = task.metadata();
  if (const auto labels = metadata.find("labels"); labels != metadata.end()) names = entries_of(labels->second);
  for (auto k = static_cast<std::int64_t>(names.size()); k < n; ++k) names.push_back(fmt::format("{}", k));
  return names;
}

std::string next_step(const std::string& folder, unsigned kind) {
  return fmt::format(fmt::runtime(find_task_kind(kind)->row.next), shell_word(folder));
}

// Adds advice, on stderr or in the JSON, if a baseline is as good as the model or better.
void add_advice(Report& report, const Task& task, const Metrics& metrics,
                const std::map<std::string, Metrics>& baselines, bool json) {
  const std::optional<Advice> advice = baseline_advice(task, metrics, baselines);
  if (advice && !json)
    print_line(wrapped(advice_line(*advice), terminal_width(STDERR_FILENO), 2));
  if (!json) return;
  ReportList list;
  if (advice) list.push_back(Report().add("symptom", advice->symptom).add("text", advice->text));
  report.add("advice", list);
}

struct Evaluated {
  EvaluateResult result;
  std::map<std::string, Metrics> baselines;  // by method
  Intervals intervals;
  bool is_finite() const { return std::isfinite(result.loss); }
};

// Writes a row for each value of each forecast of the split, and scores the intervals.
void see_forecasts(const EvalArguments& options, const RunFolder& run, const Task& task, Backend& backend,
                   Metrics& metrics) {
  const std::vector<double> levels = shares_of(options.levels);
  Forecaster forecaster(run.model.metadata, run.model.tensors, backend);
  std::optional<ForecastIntervals> intervals;
  if (!levels.empty()) {
    intervals.emplace(task, forecaster, IntervalScores::levels(levels));
    print_interval_notes(*intervals, options.levels, forecaster.has_distribution());
  }
  IntervalScores scores(levels);
  ForecastFile file(options.forecasts, {.levels = options.levels});
  for_each_forecast(task, split_of(options.split), forecaster,
                    [&](PastForecast f) {
                      if (intervals) scores.add(f);
                      f.bounds.erase(f.bounds.begin(), f.bounds.end() - 2 * std::ssize(levels));
                      file.add(f);
                    },
                    {}, intervals ? &*intervals : nullptr);
  file.finish();
  scores.put(metrics);
}

Evaluated evaluate_run(const EvalArguments& options, const RunFolder& run, const std::shared_ptr<const Task>& task,
                       Backend& backend, Activity& busy) {
  const Split split = split_of(options.split);
  TrainerOptions how = trainer_options(run.config);
  how.stage = busy.stages();
  Trainer trainer(task, backend, how);
  trainer.set_parameters(run.model.tensors);
  busy.say("evaluating");
  Evaluated e{.result = trainer.evaluate(split), .baselines = task->baselines(split), .intervals = {}};
  if (!e.is_finite()) return e;  // a prediction says nothing
  busy.say("scoring texts");
  if (const auto* pairs = dynamic_cast<const PairTask*>(task.get()))
    e.intervals = add_text_scores(pair_scores(*pairs, run, backend, split, options.decode), e.result.metrics,
                                  e.baselines);
  const bool sees_forecasts = !options.forecasts.empty() || !options.levels.empty();
  if (!options.svg.empty() || sees_forecasts) busy.say("predicting examples");
  if (sees_forecasts) see_forecasts(options, run, *task, backend, e.result.metrics);
  if (!options.svg.empty()) draw_examples(run, *task, backend, split, options.svg);
  return e;
}

void print_notes(const Task& task, Split split) {
  if (const auto* examples = dynamic_cast<const SplitExamples*>(&task))
    for (const std::string& note : examples->metric_notes()) print_progress("data: " + without_folder(note));
  if (const std::string note = small_split_note(task, split); !note.empty())
    print_progress(wrapped(note, terminal_width(STDERR_FILENO), 2));
}

int execute(const EvalArguments& options) {
  Activity busy("loading the run");
  const RunFolder run = open_run(options);
  if (!options.svg.empty()) check_drawable(run, options.config);
  const auto task = make_task(run.config, run.folder, run.model.metadata);
  if (const EmptySplit empty = empty_split(*task, run.config, split_of(options.split)); !empty.none())
    throw Error(ErrorKind::usage, "eval", empty.what, empty.next + ", or evaluate another --split");
  const ExplainedBackend backend(options.explain, open_backend(run.config, options.explain));
  const Evaluated e = evaluate_run(options, run, task, *backend, busy);
  busy.finish();
  print_notes(*task, split_of(options.split));
  Report report;
  report.add("run", options.config).add("checkpoint", options.checkpoint).add("split", options.split);
  report.add("loss", e.result.loss);
  (options.json ? add_metrics : add_metric_tables)(report, e.result.metrics, e.baselines);
  add_intervals(report, e.intervals, options.json);
  if (const auto counts = e.result.counts.find("confusion"); counts != e.result.counts.end() && e.is_finite())
    add_class_tables(report, counts->second, class_names(*task, counts->second.shape()[0]), options.json);
  const std::string error = fmt::format("the loss on the {} set is not finite: {}", options.split, e.result.loss);
  if (e.is_finite()) add_advice(report, *task, e.result.metrics, e.baselines, options.json);
  else if (options.json) report.add("error", error);
  if (e.is_finite() && !options.json && options.weights.empty())
    report.add("next", next_step(options.config, run.config.uses()));
  backend.print(std::move(report), options.json);
  if (!e.is_finite())
    throw Error(ErrorKind::numeric, options.config, error,
                "Use an earlier checkpoint: `unroll inspect` shows tensors that are not finite");
  return 0;
}

}  // namespace

const Command eval_command =
    command<EvalArguments>(k_begin, "eval", "Evaluate a trained model on a split of its data.", add_options, execute);

}  // namespace unroll::cli
